//! Methods on the header of an image that is being moved, and on that of the image that it becomes.

use crate::cls::methods;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{Decoded, Reader, Writer};
use std::collections::BTreeMap;

/// Which side of a migration a header is on (`cls::rbd::MigrationHeaderType`).
pub mod migration_side {
    /// The image is moved away.
    pub const SOURCE: u8 = 1;
    /// The image is moved here.
    pub const DESTINATION: u8 = 2;
}

/// What a header says about a migration (`cls::rbd::MigrationSpec`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigrationSpec {
    /// See [`migration_side`].
    pub side: u8,
    /// Pool of the image on the other side, or -1.
    pub pool: i64,
    /// Namespace of it within the pool.
    pub namespace: String,
    /// Its name.
    pub image_name: String,
    /// Its id.
    pub image_id: String,
    /// Snapshots of the source, and which of the destination's they become.
    pub snap_seqs: BTreeMap<u64, u64>,
    /// Bytes of the source that show through.
    pub overlap: u64,
    /// Is the destination to depend on no parent?
    pub flatten: bool,
    /// Was the source mirrored?
    pub mirroring: bool,
    /// How far it is (`cls::rbd::MigrationState`).
    pub state: u8,
    /// The same in words.
    pub state_description: String,
    /// How the source was mirrored.
    pub mirror_mode: u8,
    /// Where the source is if it is no image of RBD's, as JSON.
    pub source_spec: String,
}

impl Decode for MigrationSpec {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 3, "MigrationSpec", |version, r| {
            Ok(Self {
                side: r.u8("side of the migration")?,
                pool: r.i64("pool")?,
                namespace: r.string("namespace")?,
                image_name: r.string("image name")?,
                image_id: r.string("image")?,
                snap_seqs: BTreeMap::decode(r)?,
                overlap: r.u64("overlap")?,
                flatten: r.bool("flattening")?,
                mirroring: r.bool("mirroring")?,
                state: r.u8("state of the migration")?,
                state_description: r.string("state of the migration")?,
                mirror_mode: if version >= 2 { r.u8("mirror mode")? } else { 0 },
                source_spec: if version >= 3 { r.string("source")? } else { String::new() },
            })
        })
    }
}

impl Encode for MigrationSpec {
    fn encode(&self, w: &mut Writer) {
        // Releases that know no other sources must not take one for an image.
        let oldest = if self.source_spec.is_empty() { 1 } else { 3 };
        write_envelope(w, 3, oldest, |w| {
            w.u8(self.side);
            w.i64(self.pool);
            w.string(&self.namespace);
            w.string(&self.image_name);
            w.string(&self.image_id);
            self.snap_seqs.encode(w);
            w.u64(self.overlap);
            w.bool(self.flatten);
            w.bool(self.mirroring);
            w.u8(self.state);
            w.string(&self.state_description);
            w.u8(self.mirror_mode);
            w.string(&self.source_spec);
        });
    }
}

methods! { "rbd":
    /// A migration begins. EEXIST: one has begun.
    "migration_set" MigrationSet {
        /// What is known about it.
        spec: MigrationSpec,
    } -> ();
    /// A migration gets further. EINVAL: there is none.
    "migration_set_state" MigrationSetState {
        /// How far it is (`cls::rbd::MigrationState`).
        state: u8,
        /// The same in words.
        description: String,
    } -> ();
    /// What is known about a migration. EINVAL: there is none.
    "migration_get" MigrationGet {} -> MigrationSpec;
    /// A migration is over.
    "migration_remove" MigrationRemove {} -> ();
}
