//! Commands that Ceph has and this cluster refuses, and why.
//!
//! Source: ceph `src/mon/MonCommands.h`, `src/mgr/MgrCommands.h`.

use crate::errno::EOPNOTSUPP;
use crate::mon::refusal::Refusal;

const NO_ERASURE_CODING: &str = "the embedded cluster has no erasure-coded pools";
const NO_SUCH_CRUSH: &str = "of the CRUSH map, the embedded cluster changes hierarchy, weights and rules for replicated \
    pools, item by item: see 'osd crush add', 'move', 'reweight' and 'rule create-replicated'";
/// Also what a rule for a class is refused with.
pub(crate) const NO_CLASSES: &str =
    "the embedded cluster's OSDs have no device classes: they keep objects in memory";
const BY_HAND: &str =
    "the embedded cluster leaves balancing to you: see 'osd reweight' and 'osd pg-upmap-items'";
const NO_PRIMARIES: &str =
    "the embedded cluster's maps are those of releases before 'pg-upmap-primary': see 'osd primary-affinity'";
const FIXED_MEMBERS: &str = "the embedded cluster has the monitor and the OSDs that it was started with";
const NO_MANAGER: &str = "the embedded cluster's manager is its monitor, which answers what shows groups and OSDs and has no modules";
const NO_FILE_SYSTEMS: &str = "the embedded cluster has no file systems and no metadata servers";
const NO_DEVICES: &str = "the embedded cluster keeps objects in memory, not on devices";
const NO_SCRUB: &str = "the embedded cluster keeps objects in memory, where there is nothing to scrub";
const BY_ITSELF: &str = "the embedded cluster decides by itself how groups are served and recovered";
const FIXED_RELEASE: &str = "what releases of Ceph the embedded cluster serves cannot be changed";
const NO_PENDING_KEYS: &str = "the embedded cluster has no pending keys: 'auth rotate' changes a key at once";
const NO_MUTES: &str = "the health of the embedded cluster cannot be muted";
const PER_DAEMON: &str =
    "the daemons of the embedded cluster share a process, whose log and options say what it does";
const FLAGS_FOR_ALL: &str = "flags of the embedded cluster are for all OSDs: see 'osd set'";
const OTHER_NAME: &str = "this has another name since Ceph 16: 'osd blocklist'";
const NO_SUCH_VIEW: &str = "the embedded cluster does not count what this shows";

/// How such commands begin, whole words, and why they are refused. The first that fits counts.
const REFUSED: &[(&str, &str)] = &[
    ("osd tier", "the embedded cluster has no cache tiers"),
    ("osd erasure-code-profile", NO_ERASURE_CODING),
    ("osd crush rule create-erasure", NO_ERASURE_CODING),
    ("osd crush class", NO_CLASSES),
    ("osd crush get-device-class", NO_CLASSES),
    ("osd crush ls-osd-class", NO_CLASSES),
    ("osd crush rm-device-class", NO_CLASSES),
    ("osd crush set-device-class", NO_CLASSES),
    ("osd crush", NO_SUCH_CRUSH),
    ("osd setcrushmap", NO_SUCH_CRUSH),
    ("osd pg-upmap-primary", NO_PRIMARIES),
    ("osd rm-pg-upmap-primary", NO_PRIMARIES),
    ("osd rm-pg-upmap-primary-all", NO_PRIMARIES),
    ("osd reweight-by-pg", BY_HAND),
    ("osd reweight-by-utilization", BY_HAND),
    ("osd test-reweight-by-pg", BY_HAND),
    ("osd test-reweight-by-utilization", BY_HAND),
    ("osd reweightn", BY_HAND),
    ("osd pg-temp", BY_ITSELF),
    ("osd primary-temp", BY_ITSELF),
    ("osd rm-primary-temp", BY_ITSELF),
    ("osd force-create-pg", BY_ITSELF),
    ("osd force_healthy_stretch_mode", BY_ITSELF),
    ("osd force_recovery_stretch_mode", BY_ITSELF),
    ("osd lost", BY_ITSELF),
    ("osd new", FIXED_MEMBERS),
    ("osd create", FIXED_MEMBERS),
    ("osd rm", FIXED_MEMBERS),
    ("osd destroy", FIXED_MEMBERS),
    ("osd destroy-actual", FIXED_MEMBERS),
    ("osd purge", FIXED_MEMBERS),
    ("osd purge-actual", FIXED_MEMBERS),
    ("osd purge-new", FIXED_MEMBERS),
    ("osd setmaxosd", FIXED_MEMBERS),
    ("osd safe-to-destroy", FIXED_MEMBERS),
    ("osd ok-to-stop", NO_SUCH_VIEW),
    ("osd ok-to-upgrade", NO_SUCH_VIEW),
    ("osd last-stat-seq", NO_SUCH_VIEW),
    ("osd numa-status", NO_SUCH_VIEW),
    ("osd blocked-by", NO_SUCH_VIEW),
    ("osd tree-from", NO_SUCH_VIEW),
    ("osd scrub", NO_SCRUB),
    ("osd deep-scrub", NO_SCRUB),
    ("osd repair", NO_SCRUB),
    ("osd pool scrub", NO_SCRUB),
    ("osd pool deep-scrub", NO_SCRUB),
    ("osd pool repair", NO_SCRUB),
    ("osd pool availability-status", NO_SUCH_VIEW),
    ("osd pool clear-availability-status", NO_SUCH_VIEW),
    ("osd pool autoscale-status", NO_MANAGER),
    ("osd pool", BY_ITSELF),
    ("osd require-osd-release", FIXED_RELEASE),
    ("osd set-allow-crimson", FIXED_RELEASE),
    ("osd set-group", FLAGS_FOR_ALL),
    ("osd unset-group", FLAGS_FOR_ALL),
    ("osd add-nodown", FLAGS_FOR_ALL),
    ("osd add-noin", FLAGS_FOR_ALL),
    ("osd add-noout", FLAGS_FOR_ALL),
    ("osd add-noup", FLAGS_FOR_ALL),
    ("osd rm-nodown", FLAGS_FOR_ALL),
    ("osd rm-noin", FLAGS_FOR_ALL),
    ("osd rm-noout", FLAGS_FOR_ALL),
    ("osd rm-noup", FLAGS_FOR_ALL),
    ("osd blacklist", OTHER_NAME),
    ("pg scrub", NO_SCRUB),
    ("pg deep-scrub", NO_SCRUB),
    ("pg repair", NO_SCRUB),
    ("pg debug", NO_SUCH_VIEW),
    ("pg getmap", NO_SUCH_VIEW),
    ("pg dump_stuck", NO_SUCH_VIEW),
    ("pg", BY_ITSELF),
    ("mon scrub", NO_SCRUB),
    ("mon ok-to-stop", NO_SUCH_VIEW),
    ("mon ok-to-rm", NO_SUCH_VIEW),
    ("mon ok-to-add-offline", NO_SUCH_VIEW),
    ("mon", FIXED_MEMBERS),
    ("quorum enter", FIXED_MEMBERS),
    ("quorum exit", FIXED_MEMBERS),
    ("mgr", NO_MANAGER),
    ("alerts", NO_MANAGER),
    ("balancer", NO_MANAGER),
    ("cephadm", NO_MANAGER),
    ("crash", NO_MANAGER),
    ("dashboard", NO_MANAGER),
    ("healthcheck", NO_MANAGER),
    ("influx", NO_MANAGER),
    ("insights", NO_MANAGER),
    ("iostat", NO_MANAGER),
    ("nfs", NO_MANAGER),
    ("orch", NO_MANAGER),
    ("osd status", NO_MANAGER),
    ("osd drain", NO_MANAGER),
    ("progress", NO_MANAGER),
    ("prometheus", NO_MANAGER),
    ("rbd", NO_MANAGER),
    ("restful", NO_MANAGER),
    ("smb", NO_MANAGER),
    ("telegraf", NO_MANAGER),
    ("telemetry", NO_MANAGER),
    ("zabbix", NO_MANAGER),
    ("device", NO_DEVICES),
    ("fs", NO_FILE_SYSTEMS),
    ("mds", NO_FILE_SYSTEMS),
    ("nvme-gw", "the embedded cluster has no NVMe-oF gateways"),
    ("auth get-or-create-pending", NO_PENDING_KEYS),
    ("auth clear-pending", NO_PENDING_KEYS),
    ("auth commit-pending", NO_PENDING_KEYS),
    ("auth dump-keys", "the embedded cluster does not show the keys of its services"),
    (
        "auth wipe-rotating-service-keys",
        "the embedded cluster does not change the keys of its services by command",
    ),
    ("config show", PER_DAEMON),
    ("config show-with-defaults", PER_DAEMON),
    (
        "config",
        "the embedded cluster keeps settings for clients and knows no options of its own: see 'config set'",
    ),
    ("health mute", NO_MUTES),
    ("health unmute", NO_MUTES),
    ("report", NO_SUCH_VIEW),
    ("node ls", NO_SUCH_VIEW),
    ("sessions", PER_DAEMON),
    ("ops", PER_DAEMON),
    ("dump_historic_ops", PER_DAEMON),
    ("dump_historic_ops_by_duration", PER_DAEMON),
    ("dump_historic_slow_ops", PER_DAEMON),
    ("dump_ops_in_flight", PER_DAEMON),
    ("heap", PER_DAEMON),
    ("injectargs", PER_DAEMON),
    ("smart", NO_DEVICES),
    ("compact", NO_DEVICES),
    ("sync_force", FIXED_MEMBERS),
    ("add_bootstrap_peer_hint", FIXED_MEMBERS),
    ("add_bootstrap_peer_hintv", FIXED_MEMBERS),
    ("connection scores", FIXED_MEMBERS),
    ("tell", "'ceph tell' sends a command to its daemon by itself"),
];

/// Why the manager does not take a command that the monitor takes.
pub(crate) fn not_for_managers(words: &str) -> Refusal {
    Refusal::new(EOPNOTSUPP, format!("'{words}' is a command for the monitor, not for the manager"))
}

/// Why a command that is not served is refused.
pub(crate) fn refusal(words: &str) -> Refusal {
    let begins =
        |start: &str| words.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    match REFUSED.iter().find(|(start, _)| begins(start)) {
        Some((_, why)) => Refusal::new(EOPNOTSUPP, format!("'{words}' is not supported: {why}")),
        None => {
            let text = format!("command '{words}' is not known here; `ceph --help` lists those that are");
            Refusal::invalid(text)
        }
    }
}
