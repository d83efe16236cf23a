//! Methods on the headers of a migration's source and destination.

use crate::cls::methods;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{Decoded, Reader, Writer};
use std::collections::BTreeMap;

/// Sides of a migration (`cls::rbd::MigrationHeaderType`).
pub mod migration_side {
    /// The image is the source.
    pub const SOURCE: u8 = 1;
    /// The image is the destination.
    pub const DESTINATION: u8 = 2;
}

/// State of a migration in a header (`cls::rbd::MigrationSpec`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigrationSpec {
    /// See [`migration_side`].
    pub side: u8,
    /// Pool of the image on the other side, or -1.
    pub pool: i64,
    /// Its namespace within the pool.
    pub namespace: String,
    /// Name.
    pub image_name: String,
    /// Id.
    pub image_id: String,
    /// Snapshots of the source, with those of the destination that they become.
    pub snap_seqs: BTreeMap<u64, u64>,
    /// Bytes of the source that show through.
    pub overlap: u64,
    /// Whether the destination shall not depend on a parent.
    pub flatten: bool,
    /// Whether the source was mirrored.
    pub mirroring: bool,
    /// State (`cls::rbd::MigrationState`).
    pub state: u8,
    /// Description of the state.
    pub state_description: String,
    /// Mirroring mode of the source.
    pub mirror_mode: u8,
    /// External source, as JSON.
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
        // Releases that do not support external sources must not mistake one for an image.
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
    /// Starts a migration. EEXIST: one is in progress.
    "migration_set" MigrationSet {
        /// State of the migration.
        spec: MigrationSpec,
    } -> ();
    /// Changes the state of a migration. EINVAL: none is in progress.
    "migration_set_state" MigrationSetState {
        /// State (`cls::rbd::MigrationState`).
        state: u8,
        /// Description of the state.
        description: String,
    } -> ();
    /// Returns the state of a migration. EINVAL: none is in progress.
    "migration_get" MigrationGet {} -> MigrationSpec;
    /// Ends a migration.
    "migration_remove" MigrationRemove {} -> ();
}
