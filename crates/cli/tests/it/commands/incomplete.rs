//! Images whose import was interrupted are no source of anything, unless that is asked for.

use crate::support::Place;

/// Metadata that imports and copies keep at their image until they finish.
const MARK: &str = "rbd image-meta set disk onego.partial-import 4194304";

/// Commands that read the image, and what follows them.
const READERS: [&str; 12] = [
    "cp rbd:disk copy",
    "cp rbd:disk rbd:image",
    "cp rbd:disk@before rbd:older",
    "rbd export disk@before snapshot",
    "rbd export-diff disk@before snapshot.diff",
    "rbd export disk exported",
    "rbd export disk whole --export-format 2",
    "rbd export-diff disk diff",
    "rbd cp disk copied",
    "rbd deep cp disk deep",
    "rbd clone disk@before clone --rbd-default-clone-format 2",
    "rbd snap create disk@after",
];

#[test]
fn an_image_whose_import_was_interrupted_is_read_only_where_that_is_asked_for() {
    let place = Place::with_cluster("--osds 1");
    place.onego("rbd create --size 8M disk");
    place.onego("rbd snap create disk@before");
    place.onego(MARK);
    let servers = [
        "export nbd rbd:disk --socket s",
        "export vhost-user rbd:disk --socket s",
        "rbd migration prepare disk moved",
        "rbd migration prepare --import-only disk@before imported",
    ];
    for line in READERS.iter().chain(&servers) {
        let (code, said) = place.onego_fails(line);
        assert_eq!(code, 5, "{line}: {said}");
        let expected = "image disk is incomplete (4194304 bytes are imported)";
        assert!(said.contains(expected) && said.contains("--allow-incomplete"), "{line}: {said}");
    }
    assert_eq!(place.onego("rbd ls"), "disk\n", "a refused command made an image");
    for line in READERS {
        place.onego(&format!("{line} --allow-incomplete"));
    }
    // What inherited the bytes inherits the mark.
    for image in ["copied", "deep", "clone", "image", "older"] {
        let (code, said) = place.onego_fails(&format!("cp rbd:{image} other"));
        assert!(code == 5 && said.contains("is incomplete"), "{image}: {code}, {said}");
    }
    // It can still be written to.
    place.onego("cp null:8M rbd:disk --in-place");
    place.onego("rbd image-meta remove disk onego.partial-import");
    place.onego("cp rbd:disk copy --replace");
}
