//! Placement equals Ceph's, for every kind of bucket, step and tunable.

use super::random::{self, Random};
use super::{CRUSHTOOL, Folder, Inputs, compare_mappings, compile, crushtool, load};
use onego_testkit::{NeedyTest, needy_tests};

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    CRUSHTOOL;
    random_maps_of_all_algorithms_map_like_crushtool,
    random_maps_of_straw2_map_as_crushtool_maps_them,
    random_maps_with_device_classes_map_like_crushtool,
    built_maps_of_each_algorithm_map_like_crushtool,
    a_large_straw2_bucket_maps_as_crushtool_maps_it,
    weights_of_32768_and_more_map_as_crushtool_maps_them,
];

const ALGORITHMS: &[&str] = &["uniform", "list", "tree", "straw", "straw2"];

/// Devices that are fully or partly out.
fn reweights(random: &mut Random, devices: i32) -> Vec<(i32, f32)> {
    let percent = *random.pick(&[0, 5, 30, 60]);
    (0..devices)
        .filter(|_| random.chance(percent))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|device| (device, *random.pick(&[0.0, 0.25, 0.5, 0.75])))
        .collect()
}

fn compare_random_maps(seed: u64, maps: usize, algorithms: &'static [&'static str], classes: bool) -> usize {
    let folder = Folder::new();
    let mut random = Random(seed);
    let mut compared = 0;
    for _ in 0..maps {
        let text = random::map(&mut random, algorithms, classes);
        let file = compile(&folder, &text);
        let map = load(&file);
        for _ in 0..2 {
            let start = random.in_range(0..=1 << 30) as u32;
            let inputs = Inputs {
                xs: start..=start + 499,
                result_max: random.in_range(1..=8) as usize,
                reweights: reweights(&mut random, map.max_devices),
            };
            compared += compare_mappings(&file, &map, &inputs);
        }
    }
    compared
}

fn random_maps_of_all_algorithms_map_like_crushtool() {
    assert_eq!(compare_random_maps(1, 16, ALGORITHMS, false), 16 * 2 * 6 * 500);
}

fn random_maps_of_straw2_map_as_crushtool_maps_them() {
    assert_eq!(compare_random_maps(2, 12, &["straw2"], false), 12 * 2 * 6 * 500);
}

fn random_maps_with_device_classes_map_like_crushtool() {
    assert_eq!(compare_random_maps(3, 10, &["list", "straw", "straw2"], true), 10 * 2 * 6 * 500);
}

fn built_maps_of_each_algorithm_map_like_crushtool() {
    let folder = Folder::new();
    for (n, algorithm) in ALGORITHMS.iter().enumerate() {
        let file = folder.path(algorithm);
        let path = file.to_str().unwrap();
        crushtool(
            ["-o", path, "--build", "--num_osds", "90"]
                .into_iter()
                .chain(["node", algorithm, "5", "rack", algorithm, "4", "root", algorithm, "0"]),
        );
        let map = load(&file);
        let reweights = reweights(&mut Random(n as u64), map.max_devices);
        let inputs = Inputs { xs: 0..=1999, result_max: 3 + n, reweights };
        assert_eq!(compare_mappings(&file, &map, &inputs), 2000);
    }
}

/// A bucket with that many devices covers much of the logarithm's tables.
fn a_large_straw2_bucket_maps_as_crushtool_maps_it() {
    let folder = Folder::new();
    let file = folder.path("large");
    let path = file.to_str().unwrap();
    crushtool(["-o", path, "--build", "--num_osds", "3000", "host", "straw2", "1", "root", "straw2", "0"]);
    let map = load(&file);
    let inputs = Inputs { xs: 0..=999, result_max: 6, reweights: vec![(7, 0.5), (2999, 0.0)] };
    assert_eq!(compare_mappings(&file, &map, &inputs), 1000);
}

/// Peers treat weights as signed numbers, so the heaviest items lose; see `bucket_straw2_choose`.
fn weights_of_32768_and_more_map_as_crushtool_maps_them() {
    let folder = Folder::new();
    let file = compile(
        &folder,
        "device 0 osd.0\ndevice 1 osd.1\ndevice 2 osd.2\ntype 0 osd\ntype 1 host\ntype 2 root\n\
         host a {\n id -1\n alg straw2\n hash 0\n item osd.0 weight 1.0\n}\n\
         host b {\n id -2\n alg straw2\n hash 0\n item osd.1 weight 1.0\n}\n\
         host c {\n id -3\n alg straw2\n hash 0\n item osd.2 weight 1.0\n}\n\
         root default {\n id -4\n alg straw2\n hash 0\n\
         item a weight 12000.0\n item b weight 40000.0\n item c weight 9000.5\n}\n\
         rule r {\n id 0\n type replicated\n min_size 1\n max_size 10\n\
         step take default\n step chooseleaf firstn 0 type host\n step emit\n}\n",
    );
    let map = load(&file);
    let inputs = Inputs { xs: 0..=999, result_max: 2, reweights: vec![] };
    assert_eq!(compare_mappings(&file, &map, &inputs), 1000);
}
