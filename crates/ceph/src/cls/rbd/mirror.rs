//! Methods on a pool's notes about mirroring (`rbd_mirroring`), and on snapshots that images are mirrored by.

use crate::cls::{methods, structure};
use crate::types::Utime;
use std::collections::BTreeMap;

/// What of a pool is mirrored (`cls::rbd::MirrorMode`).
pub mod mirror_mode {
    /// Nothing.
    pub const DISABLED: u32 = 0;
    /// Images for which it was asked.
    pub const IMAGE: u32 = 1;
    /// All images with a journal.
    pub const POOL: u32 = 2;
}

/// Which way images are mirrored (`cls::rbd::MirrorPeerDirection`).
pub mod mirror_direction {
    /// From the peer.
    pub const RECEIVE: u8 = 0;
    /// To the peer.
    pub const SEND: u8 = 1;
    /// Both.
    pub const BOTH: u8 = 2;
}

/// How far the mirroring of an image is (`cls::rbd::MirrorImageState`).
pub mod mirror_state {
    /// It is being switched off.
    pub const DISABLING: u8 = 0;
    /// It is mirrored.
    pub const ENABLED: u8 = 1;
    /// It is not mirrored.
    pub const DISABLED: u8 = 2;
    /// It is being made as the copy of another.
    pub const CREATING: u8 = 3;
}

/// How an image is mirrored (`cls::rbd::MirrorImageMode`).
pub mod mirror_image_mode {
    /// By its journal.
    pub const JOURNAL: u8 = 0;
    /// By snapshots.
    pub const SNAPSHOT: u8 = 1;
}

structure! {
    /// Another cluster (`cls::rbd::MirrorPeer`).
    MirrorPeer v 2 {
        /// What the peer is called here.
        uuid: String,
        /// The name of its site.
        site_name: String,
        /// The user there, without `client.`.
        client_name: String,
        /// Of the past: -1.
        pool: i64,
        /// See [`mirror_direction`].
        direction: u8 = 0,
        /// What the peer's pool calls itself.
        mirror_uuid: String = String::new(),
        /// When it was last heard of.
        last_seen: Utime = Utime::default(),
    }
}

impl MirrorPeer {
    /// Can images be mirrored with what is known? To receive takes a user there.
    pub fn is_valid(&self) -> bool {
        let has_client = match self.direction {
            mirror_direction::SEND => true,
            mirror_direction::RECEIVE | mirror_direction::BOTH => !self.client_name.is_empty(),
            _ => false,
        };
        has_client && !self.uuid.is_empty() && !self.site_name.is_empty()
    }
}

structure! {
    /// An image that is mirrored (`cls::rbd::MirrorImage`).
    MirrorImage v 2 {
        /// Its id, the same in all clusters.
        global_id: String,
        /// See [`mirror_state`].
        state: u8,
        /// See [`mirror_image_mode`].
        mode: u8 = 0,
    }
}

structure! {
    /// What a daemon that mirrors says about an image, without the site (`cls::rbd::MirrorImageSiteStatus`).
    #[derive(Default)]
    MirrorSiteStatus {
        /// `MirrorImageStatusState`; 0: unknown.
        state: u8,
        /// The same in words.
        description: String,
        /// When it was said.
        last_update: Utime,
        /// Is the daemon there?
        up: bool,
    }
}

structure! {
    /// How far the mirroring of an image is in this cluster and elsewhere (`cls::rbd::MirrorImageStatus`).
    #[derive(Default)]
    MirrorImageStatus v 2 {
        /// In this cluster.
        local: MirrorSiteStatus,
        /// Is anything known of this cluster?
        has_local: bool = true,
        /// By the peers' UUIDs.
        remote: Vec<(String, MirrorSiteStatus)> = Vec::new(),
    }
}

structure! {
    /// The reply to [`MirrorImageStatusList`].
    MirrorImageStatuses {
        /// Images by their ids.
        images: BTreeMap<String, MirrorImage>,
        /// What is known of those of which anything is.
        statuses: BTreeMap<String, MirrorImageStatus>,
    }
}

methods! { "rbd":
    /// What the pool calls itself to its peers.
    "mirror_uuid_get" MirrorUuidGet {} -> String;
    /// Sets that. EINVAL: it is mirrored already.
    "mirror_uuid_set" MirrorUuidSet {
        /// The UUID.
        uuid: String,
    } -> ();
    /// What is mirrored, see [`mirror_mode`]. ENOENT: nothing ever was.
    "mirror_mode_get" MirrorModeGet {} -> u32;
    /// Changes what is mirrored. EINVAL: the pool has no UUID; EBUSY: it has peers.
    "mirror_mode_set" MirrorModeSet {
        /// See [`mirror_mode`].
        mode: u32,
    } -> ();
    /// The namespace of the peers' pools that images are mirrored to. ENOENT: the one of the same name.
    "mirror_remote_namespace_get" MirrorRemoteNamespaceGet {} -> String;
    /// Sets that. EINVAL: images are mirrored already.
    "mirror_remote_namespace_set" MirrorRemoteNamespaceSet {
        /// The namespace.
        namespace: String,
    } -> ();
    /// All peers.
    "mirror_peer_list" MirrorPeerList {} -> Vec<MirrorPeer>;
    /// Adds a peer. EINVAL: nothing is mirrored; ESTALE, EEXIST: it is there.
    "mirror_peer_add" MirrorPeerAdd {
        /// The peer.
        peer: MirrorPeer,
    } -> ();
    /// Removes a peer, if it is there.
    "mirror_peer_remove" MirrorPeerRemove {
        /// The peer's UUID.
        uuid: String,
    } -> ();
    /// Changes the user at a peer.
    "mirror_peer_set_client" MirrorPeerSetClient {
        /// The peer's UUID.
        uuid: String,
        /// The user, without `client.`.
        client_name: String,
    } -> ();
    /// Changes the name of a peer's site. EEXIST: another peer has it.
    "mirror_peer_set_cluster" MirrorPeerSetCluster {
        /// The peer's UUID.
        uuid: String,
        /// The name.
        site_name: String,
    } -> ();
    /// Changes which way images are mirrored with a peer.
    "mirror_peer_set_direction" MirrorPeerSetDirection {
        /// The peer's UUID.
        uuid: String,
        /// See [`mirror_direction`].
        direction: u8,
    } -> ();
    /// Images that are mirrored: their ids, and those that they have in all clusters.
    "mirror_image_list" MirrorImageList {
        /// The id to go on behind.
        after: String,
        /// Most images wanted.
        max: u64,
    } -> BTreeMap<String, String>;
    /// The id of the image that has this one in all clusters.
    "mirror_image_get_image_id" MirrorImageGetImageId {
        /// The id in all clusters.
        global_id: String,
    } -> String;
    /// What is known of an image that is mirrored.
    "mirror_image_get" MirrorImageGet {
        /// The image.
        image_id: String,
    } -> MirrorImage;
    /// Changes that. EEXIST: another image has its global id; EINVAL: it has another.
    "mirror_image_set" MirrorImageSet {
        /// The image.
        image_id: String,
        /// What is known of it.
        image: MirrorImage,
    } -> ();
    /// An image is mirrored no more. EBUSY: that is not being switched off.
    "mirror_image_remove" MirrorImageRemove {
        /// The image.
        image_id: String,
    } -> ();
    /// Images that are mirrored, and what daemons say about them.
    "mirror_image_status_list" MirrorImageStatusList {
        /// The id to go on behind.
        after: String,
        /// Most images wanted.
        max: u64,
    } -> MirrorImageStatuses;
    /// How many images are in which state.
    "mirror_image_status_get_summary" MirrorImageStatusGetSummary {
        /// The peers.
        peers: Vec<MirrorPeer> = Vec::new(),
    } -> BTreeMap<u8, i32>;
    /// A peer needs a snapshot, of the image whose header this is, no more.
    "mirror_image_snapshot_unlink_peer" MirrorSnapshotUnlinkPeer {
        /// The snapshot.
        snap: u64,
        /// The peer's UUID.
        uuid: String,
    } -> ();
    /// How much of a snapshot is copied.
    "mirror_image_snapshot_set_copy_progress" MirrorSnapshotSetCopyProgress {
        /// The snapshot.
        snap: u64,
        /// All of it?
        complete: bool,
        /// The last object that is.
        last_copied_object: u64,
    } -> ();
}
