//! Methods on a pool's mirroring configuration (`rbd_mirroring`) and on mirror snapshots.

use crate::cls::{methods, structure};
use crate::types::Utime;
use std::collections::BTreeMap;

/// Mirroring modes of a pool (`cls::rbd::MirrorMode`).
pub mod mirror_mode {
    /// Nothing.
    pub const DISABLED: u32 = 0;
    /// Selected images.
    pub const IMAGE: u32 = 1;
    /// All images with a journal.
    pub const POOL: u32 = 2;
}

/// Directions of mirroring (`cls::rbd::MirrorPeerDirection`).
pub mod mirror_direction {
    /// From the peer.
    pub const RECEIVE: u8 = 0;
    /// To the peer.
    pub const SEND: u8 = 1;
    /// Both.
    pub const BOTH: u8 = 2;
}

/// Mirroring states of an image (`cls::rbd::MirrorImageState`).
pub mod mirror_state {
    /// Mirroring is being disabled.
    pub const DISABLING: u8 = 0;
    /// Mirroring is enabled.
    pub const ENABLED: u8 = 1;
    /// Mirroring is disabled.
    pub const DISABLED: u8 = 2;
    /// The image is being created as a mirror of another.
    pub const CREATING: u8 = 3;
}

/// Mirroring modes of an image (`cls::rbd::MirrorImageMode`).
pub mod mirror_image_mode {
    /// By its journal.
    pub const JOURNAL: u8 = 0;
    /// By snapshots.
    pub const SNAPSHOT: u8 = 1;
}

structure! {
    /// Peer cluster (`cls::rbd::MirrorPeer`).
    MirrorPeer v 2 {
        /// UUID of the peer in this cluster.
        uuid: String,
        /// Name of its site.
        site_name: String,
        /// User in that cluster, without `client.`.
        client_name: String,
        /// Obsolete: -1.
        pool: i64,
        /// See [`mirror_direction`].
        direction: u8 = 0,
        /// The peer pool's own UUID.
        mirror_uuid: String = String::new(),
        /// Time of the last contact.
        last_seen: Utime = Utime::default(),
    }
}

impl MirrorPeer {
    /// Returns whether the peer is complete: to receive images, it needs a user.
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
    /// Mirrored image (`cls::rbd::MirrorImage`).
    MirrorImage v 2 {
        /// Id of the image in all clusters.
        global_id: String,
        /// See [`mirror_state`].
        state: u8,
        /// See [`mirror_image_mode`].
        mode: u8 = 0,
    }
}

structure! {
    /// Mirroring status of an image at one site, without the site's id (`cls::rbd::MirrorImageSiteStatus`).
    #[derive(Default)]
    MirrorSiteStatus {
        /// `MirrorImageStatusState`; 0: unknown.
        state: u8,
        /// Description of the state.
        description: String,
        /// Time of the report.
        last_update: Utime,
        /// Whether the mirroring daemon is up.
        up: bool,
    }
}

structure! {
    /// Mirroring status of an image in this cluster and elsewhere (`cls::rbd::MirrorImageStatus`).
    #[derive(Default)]
    MirrorImageStatus v 2 {
        /// Status in this cluster.
        local: MirrorSiteStatus,
        /// Whether the status of this cluster is known.
        has_local: bool = true,
        /// Status at the peers, by UUID.
        remote: Vec<(String, MirrorSiteStatus)> = Vec::new(),
    }
}

structure! {
    /// Reply to [`MirrorImageStatusList`].
    MirrorImageStatuses {
        /// Images by id.
        images: BTreeMap<String, MirrorImage>,
        /// Known statuses by image id.
        statuses: BTreeMap<String, MirrorImageStatus>,
    }
}

methods! { "rbd":
    /// Returns the pool's own UUID towards its peers.
    "mirror_uuid_get" MirrorUuidGet {} -> String;
    /// Sets the pool's UUID. EINVAL: it is already mirrored.
    "mirror_uuid_set" MirrorUuidSet {
        /// UUID.
        uuid: String,
    } -> ();
    /// Returns the mode of the pool, see [`mirror_mode`]. ENOENT: it was never set.
    "mirror_mode_get" MirrorModeGet {} -> u32;
    /// Changes the mode of the pool. EINVAL: the pool has no UUID; EBUSY: it has peers.
    "mirror_mode_set" MirrorModeSet {
        /// See [`mirror_mode`].
        mode: u32,
    } -> ();
    /// Returns the namespace of the peer pools for mirrored images. ENOENT: that of the same name.
    "mirror_remote_namespace_get" MirrorRemoteNamespaceGet {} -> String;
    /// Sets that namespace. EINVAL: images are already mirrored.
    "mirror_remote_namespace_set" MirrorRemoteNamespaceSet {
        /// Namespace.
        namespace: String,
    } -> ();
    /// Lists the peers.
    "mirror_peer_list" MirrorPeerList {} -> Vec<MirrorPeer>;
    /// Adds a peer. EINVAL: mirroring is disabled; ESTALE, EEXIST: the peer already exists.
    "mirror_peer_add" MirrorPeerAdd {
        /// Peer.
        peer: MirrorPeer,
    } -> ();
    /// Removes a peer, if it exists.
    "mirror_peer_remove" MirrorPeerRemove {
        /// UUID of the peer.
        uuid: String,
    } -> ();
    /// Changes the user of a peer.
    "mirror_peer_set_client" MirrorPeerSetClient {
        /// UUID of the peer.
        uuid: String,
        /// User, without `client.`.
        client_name: String,
    } -> ();
    /// Changes the site name of a peer. EEXIST: another peer has it.
    "mirror_peer_set_cluster" MirrorPeerSetCluster {
        /// UUID of the peer.
        uuid: String,
        /// Name.
        site_name: String,
    } -> ();
    /// Changes the direction of a peer.
    "mirror_peer_set_direction" MirrorPeerSetDirection {
        /// UUID of the peer.
        uuid: String,
        /// See [`mirror_direction`].
        direction: u8,
    } -> ();
    /// Lists mirrored images: local and global ids.
    "mirror_image_list" MirrorImageList {
        /// Id after which to start.
        after: String,
        /// Maximum number of images.
        max: u64,
    } -> BTreeMap<String, String>;
    /// Returns the local id of an image.
    "mirror_image_get_image_id" MirrorImageGetImageId {
        /// Global id.
        global_id: String,
    } -> String;
    /// Returns the state of a mirrored image.
    "mirror_image_get" MirrorImageGet {
        /// Image.
        image_id: String,
    } -> MirrorImage;
    /// Sets the state of a mirrored image. EEXIST: another image has its global id; EINVAL: it has another one.
    "mirror_image_set" MirrorImageSet {
        /// Image.
        image_id: String,
        /// State.
        image: MirrorImage,
    } -> ();
    /// Removes an image from the mirrored ones. EBUSY: its mirroring is not being disabled.
    "mirror_image_remove" MirrorImageRemove {
        /// Image.
        image_id: String,
    } -> ();
    /// Lists mirrored images with their statuses.
    "mirror_image_status_list" MirrorImageStatusList {
        /// Id after which to start.
        after: String,
        /// Maximum number of images.
        max: u64,
    } -> MirrorImageStatuses;
    /// Returns the number of images in each state.
    "mirror_image_status_get_summary" MirrorImageStatusGetSummary {
        /// Peers.
        peers: Vec<MirrorPeer> = Vec::new(),
    } -> BTreeMap<u8, i32>;
    /// Removes a peer from a mirror snapshot of the image.
    "mirror_image_snapshot_unlink_peer" MirrorSnapshotUnlinkPeer {
        /// Snapshot.
        snap: u64,
        /// UUID of the peer.
        uuid: String,
    } -> ();
    /// Sets the copy progress of a mirror snapshot.
    "mirror_image_snapshot_set_copy_progress" MirrorSnapshotSetCopyProgress {
        /// Snapshot.
        snap: u64,
        /// Whether all of it is copied.
        complete: bool,
        /// Last copied object.
        last_copied_object: u64,
    } -> ();
}
