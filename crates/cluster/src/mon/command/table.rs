//! The commands there are.

use super::osds::{crush, osd, osd_df, osd_dump, pg, placement, releases};
use super::pools::{pool, pool_set, pool_snaps, quota};
use super::syntax::{Arg, ArgKind, Command, arg, change, many, opt, secret, show};
use super::{auth, config, config_key, log, mons, status};

/// The command with these words.
pub(super) fn find(words: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.words == words)
}

const POOL: Arg = arg("pool", ArgKind::Pool);
const DETAIL: Arg = opt("detail", ArgKind::Choices("detail"));
const EPOCH: Arg = opt("epoch", ArgKind::Int { min: 0 });
const SURE: Arg = opt("yes_i_really_mean_it", ArgKind::Bool);
const DELETE_ARGS: &[Arg] = &[
    POOL,
    opt("pool2", ArgKind::Pool),
    opt("yes_i_really_really_mean_it", ArgKind::Bool),
    opt("yes_i_really_really_mean_it_not_faking", ArgKind::Bool),
];
const CREATE_ARGS: &[Arg] = &[
    POOL,
    opt("pg_num", ArgKind::Int { min: 0 }),
    opt("pgp_num", ArgKind::Int { min: 0 }),
    opt("pool_type", ArgKind::Choices("replicated|erasure")),
    opt("erasure_code_profile", ArgKind::Text),
    opt("rule", ArgKind::Text),
    opt("expected_num_objects", ArgKind::Int { min: 0 }),
    opt("size", ArgKind::Int { min: 0 }),
    opt("pg_num_min", ArgKind::Int { min: 0 }),
    opt("pg_num_max", ArgKind::Int { min: 0 }),
    opt("autoscale_mode", ArgKind::Choices("on|off|warn")),
    opt("bulk", ArgKind::Bool),
    opt("target_size_bytes", ArgKind::Int { min: 0 }),
    opt("target_size_ratio", ArgKind::Float),
];
const APP: Arg = arg("app", ArgKind::Text);
const KEY: Arg = arg("key", ArgKind::Text);
const WHO: Arg = arg("who", ArgKind::Text);
const STATES: Arg = many("states", ArgKind::Text);
const BY_OSD_ARGS: &[Arg] = &[arg("id", ArgKind::Entity), opt("pool", ArgKind::Int { min: 0 }), STATES];
const DUMP_CONTENTS: Arg =
    many("dumpcontents", ArgKind::Choices("all|summary|sum|delta|pools|osds|pgs|pgs_brief"));
const CONFIG_ARGS: &[Arg] =
    &[WHO, arg("name", ArgKind::Text), arg("value", ArgKind::Text), opt("force", ArgKind::Bool)];
const KEY_ARGS: &[Arg] = &[KEY, opt("val", ArgKind::Text)];
const ENTITY: Arg = arg("entity", ArgKind::Entity);
const CAPS: Arg = many("caps", ArgKind::Text);
const KEY_TYPE: Arg = opt("key_type", ArgKind::Choices("aes|aes256k"));
const AUTH_ARGS: &[Arg] = &[ENTITY, CAPS, KEY_TYPE];
const CAPS_ARGS: &[Arg] = &[ENTITY, Arg { required: true, ..CAPS }];
const LOG_LEVELS: &str = "debug|info|sec|warn|error";
const LOG_LAST_ARGS: &[Arg] = &[
    opt("num", ArgKind::Int { min: 1 }),
    opt("level", ArgKind::Choices(LOG_LEVELS)),
    opt("channel", ArgKind::Choices("*|cluster|audit|cephadm")),
];
const LOG_ARGS: &[Arg] =
    &[Arg { required: true, ..many("logtext", ArgKind::Text) }, opt("level", ArgKind::Choices(LOG_LEVELS))];
const DF_ARGS: &[Arg] = &[opt("output_method", ArgKind::Choices("plain|tree"))];
const OSDS: &[Arg] = &[Arg { required: true, ..many("ids", ArgKind::Text) }];
const RATIO_ARGS: &[Arg] = &[arg("ratio", ArgKind::Share)];
const QUOTA_ARGS: &[Arg] =
    &[POOL, arg("field", ArgKind::Choices("max_objects|max_bytes")), arg("val", ArgKind::Text)];
const REWEIGHT_ARGS: &[Arg] = &[arg("id", ArgKind::Entity), arg("weight", ArgKind::Float)];
const AFFINITY_ARGS: &[Arg] = &[arg("id", ArgKind::Entity), arg("weight", ArgKind::Share)];
const NAME: Arg = arg("name", ArgKind::Text);
const LOCATION: Arg = many("args", ArgKind::Text);
const PLACED_ARGS: &[Arg] =
    &[arg("id", ArgKind::Entity), arg("weight", ArgKind::Float), Arg { required: true, ..LOCATION }];
const MOVE_ARGS: &[Arg] = &[NAME, Arg { required: true, ..LOCATION }];
const ITEM_WEIGHT_ARGS: &[Arg] = &[NAME, arg("weight", ArgKind::Float)];
const BUCKET_ARGS: &[Arg] = &[NAME, arg("type", ArgKind::Text), LOCATION];
const NAMES_ARGS: &[Arg] = &[arg("srcname", ArgKind::Text), arg("dstname", ArgKind::Text)];
const RULE_ARGS: &[Arg] =
    &[NAME, arg("root", ArgKind::Text), arg("type", ArgKind::Text), opt("class", ArgKind::Text)];
const PROFILE_ARGS: &[Arg] =
    &[arg("profile", ArgKind::Choices("legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default"))];
const PG: Arg = arg("pgid", ArgKind::Pg);
const UPMAP_ARGS: &[Arg] = &[PG, Arg { required: true, ..many("id", ArgKind::Text) }];
const MAP_ARGS: &[Arg] = &[POOL, arg("object", ArgKind::Object), opt("nspace", ArgKind::Text)];
const RENAME_ARGS: &[Arg] = &[arg("srcpool", ArgKind::Pool), arg("destpool", ArgKind::Pool)];
const SNAP_ARGS: &[Arg] = &[POOL, arg("snap", ArgKind::Text)];
const SET_ARGS: &[Arg] =
    &[POOL, arg("var", ArgKind::Choices(pool_set::SETTABLE)), arg("val", ArgKind::Text), SURE];
const APPLICATION_ARGS: &[Arg] =
    &[opt("pool", ArgKind::Pool), opt("app", ArgKind::Text), opt("key", ArgKind::Text)];
const BLOCKLIST_ARGS: &[Arg] = &[
    arg("blocklistop", ArgKind::Choices("add|rm")),
    arg("addr", ArgKind::Address),
    opt("expire", ArgKind::Float),
];

#[rustfmt::skip] // a line each
pub(super) const COMMANDS: &[Command] = &[
    show("status", &[], "how the cluster is", status::status),
    show("health", &[DETAIL], "what is wrong with the cluster", status::health),
    show("df", &[DETAIL], "how full the cluster and its pools are", status::df),
    show("fsid", &[], "the cluster's id", mons::fsid),
    show("version", &[], "which version the monitor is", mons::version),
    show("versions", &[], "which versions run", mons::versions),
    show("features", &[], "what features daemons and clients have", mons::features),
    show("quorum_status", &[], "which monitors are in the quorum", mons::quorum_status),

    show("log last", LOG_LAST_ARGS, "the newest entries of the cluster's log", log::last),
    change("log", LOG_ARGS, "write to the cluster's log", log::write),

    show("mon_status", &[], "the monitor's place in the quorum", mons::mon_status),
    show("service dump", &[], "the daemons of services", mons::service_dump),
    show("service status", &[], "the state of services", mons::service_status),

    show("mon dump", &[EPOCH], "all that the monitors' map says", mons::dump),
    show("mon stat", &[], "the monitors in a line", mons::stat),
    show("mon getmap", &[EPOCH], "the monitors' map, encoded", mons::getmap),
    show("mon metadata", &[opt("id", ArgKind::Entity)], "what monitors say of themselves", mons::metadata),
    show("mon versions", &[], "which versions of monitors run", mons::mon_versions),
    show("mgr dump", &[EPOCH], "all that the managers' map says", mons::mgr_dump),
    show("mgr stat", &[], "the managers in a line", mons::mgr_stat),
    show("mgr module ls", &[], "the managers' modules", mons::mgr_modules),
    show("mgr services", &[], "what the managers' modules serve", mons::mgr_services),
    show("mds stat", &[], "the metadata servers in a line", mons::mds_stat),
    show("fs ls", &[], "the file systems", mons::fs_list),

    show("config get", &[WHO, opt("key", ArgKind::Text)], "the settings kept for somebody", config::get),
    show("config dump", &[], "all settings that are kept", config::dump),
    change("config set", CONFIG_ARGS, "keep a setting for somebody, or for all", config::set),
    change("config rm", &[WHO, arg("name", ArgKind::Text)], "forget a setting", config::remove),
    secret("config-key set", KEY_ARGS, "keep a value, or the input, by a key of one's own", config_key::set),
    secret("config-key put", KEY_ARGS, "the same", config_key::set),
    show("config-key get", &[KEY], "what is kept by a key", config_key::get),
    change("config-key rm", &[KEY], "forget a key", config_key::remove),
    change("config-key del", &[KEY], "forget a key", config_key::remove),
    show("config-key exists", &[KEY], "whether something is kept by a key", config_key::exists),
    show("config-key ls", &[], "the keys by which something is kept", config_key::list),
    show("config-key list", &[], "the keys by which something is kept", config_key::list),
    show("config-key dump", &[opt("key", ArgKind::Text)], "keys, all or those that begin so, and what is kept by them",
        config_key::dump),
    show("auth ls", &[], "who has a key", auth::list),
    show("auth list", &[], "who has a key", auth::list),
    show("auth get", &[ENTITY], "somebody's key and rights", auth::get),
    show("auth export", &[opt("entity", ArgKind::Entity)], "somebody's key and rights, or everybody's", auth::export),
    show("auth get-key", &[ENTITY], "somebody's key", auth::get_key),
    show("auth print-key", &[ENTITY], "somebody's key", auth::get_key),
    show("auth print_key", &[ENTITY], "somebody's key", auth::get_key),
    change("auth add", AUTH_ARGS, "add somebody, with the key in the input or a new one", auth::add),
    change("auth get-or-create", AUTH_ARGS, "somebody's key, who is added if need be", auth::get_or_create),
    change("auth get-or-create-key", AUTH_ARGS, "the same, as the key alone", auth::get_or_create_key),
    change("auth rotate", &[ENTITY, KEY_TYPE], "give somebody another key", auth::rotate),
    change("auth caps", CAPS_ARGS, "change somebody's rights", auth::set_caps),
    change("auth import", &[], "add or change those in the keyring in the input", auth::import),
    change("auth del", &[ENTITY], "remove somebody", auth::remove),
    change("auth rm", &[ENTITY], "remove somebody", auth::remove),

    show("osd dump", &[EPOCH], "all that the OSDs' map says", osd_dump::dump),
    show("osd stat", &[], "the OSDs in a line", osd::stat),
    show("osd tree", &[EPOCH], "the OSDs and what they are in", crush::osd_tree),
    show("osd df", DF_ARGS, "how full the OSDs are", osd_df::df),
    show("osd ls", &[EPOCH], "the OSDs' numbers", osd::list),
    show("osd getmaxosd", &[], "how many OSDs the map has room for", osd::get_max),
    show("osd getmap", &[EPOCH], "the OSDs' map, encoded", osd::getmap),
    show("osd getcrushmap", &[EPOCH], "the CRUSH map, encoded", osd::getcrushmap),
    show("osd lspools", &[], "the pools with their ids", pool::lspools),
    show("osd map", MAP_ARGS, "where an object is", osd::map_object),
    show("osd find", &[arg("id", ArgKind::Entity)], "where an OSD is", osd::find),
    show("osd metadata", &[opt("id", ArgKind::Entity)], "what OSDs say of themselves", osd::metadata),
    show("osd versions", &[], "which versions of OSDs run", mons::osd_versions),
    show("osd perf", &[], "how long OSDs take", osd::perf),
    show("osd get-require-min-compat-client", &[], "the oldest clients that are served", releases::min_compat_client),
    change("osd set-require-min-compat-client", &[arg("version", ArgKind::Text), SURE], "say which clients the cluster is for",
        releases::set_min_compat_client),
    change("osd set", &[arg("key", ArgKind::Choices(osd::SETTABLE)), SURE], "set a flag of the map", osd::set),
    change("osd unset", &[arg("key", ArgKind::Choices(osd::SETTABLE))], "clear a flag of the map", osd::unset),
    change("osd set-full-ratio", RATIO_ARGS, "from where on an OSD is full", osd::set_full_ratio),
    change("osd set-backfillfull-ratio", RATIO_ARGS, "from where on an OSD takes no more backfill",
        osd::set_backfillfull_ratio),
    change("osd set-nearfull-ratio", RATIO_ARGS, "from where on an OSD is nearly full", osd::set_nearfull_ratio),
    change("osd down", OSDS, "say that OSDs are down; those that run come up again", osd::down),
    change("osd out", OSDS, "give the data of OSDs to others", osd::out),
    change("osd in", OSDS, "give OSDs their share of the data", osd::bring_in),
    change("osd stop", OSDS, "stop OSDs", osd::stop),
    change("osd start", OSDS, "start OSDs that were stopped", osd::start),
    change("osd reweight", REWEIGHT_ARGS, "give an OSD a part of its share of the data", osd::reweight),
    show("osd blocklist ls", &[], "the clients that are shut out", osd::blocklist_list),
    change("osd blocklist clear", &[], "let all clients in again", osd::blocklist_clear),
    change("osd blocklist", BLOCKLIST_ARGS, "shut a client out, or let it in again", osd::blocklist),
    show("osd crush rule ls", &[], "the names of the CRUSH rules", crush::rule_list),
    show("osd crush rule dump", &[opt("name", ArgKind::Text)], "the CRUSH rules", crush::rule_dump),
    show("osd crush dump", &[], "all that the CRUSH map says", crush::dump),
    show("osd crush tree", &[], "the CRUSH map's hierarchy", crush::crush_tree),
    show("osd crush class ls", &[], "the classes of devices", crush::class_list),
    change("osd crush add", PLACED_ARGS, "put an OSD somewhere in the CRUSH map", placement::set),
    change("osd crush set", PLACED_ARGS, "put an OSD somewhere in the CRUSH map", placement::set),
    change("osd crush create-or-move", PLACED_ARGS, "put an OSD somewhere in the CRUSH map; if it is in it, it keeps its weight",
        placement::create_or_move),
    change("osd crush move", MOVE_ARGS, "put an item elsewhere in the CRUSH map", placement::move_item),
    change("osd crush rm", &[NAME], "take an item out of the CRUSH map", placement::remove),
    change("osd crush remove", &[NAME], "take an item out of the CRUSH map", placement::remove),
    change("osd crush reweight", ITEM_WEIGHT_ARGS, "change an OSD's weight in the CRUSH map", placement::reweight),
    change("osd crush reweight-subtree", ITEM_WEIGHT_ARGS, "change the weights of all OSDs below an item",
        placement::reweight_subtree),
    change("osd crush add-bucket", BUCKET_ARGS, "make a bucket in the CRUSH map", placement::add_bucket),
    change("osd crush rename-bucket", NAMES_ARGS, "give a bucket another name", placement::rename_bucket),
    change("osd crush rule create-replicated", RULE_ARGS, "make a rule for replicated pools", placement::create_rule),
    change("osd crush rule rename", NAMES_ARGS, "give a rule another name", placement::rename_rule),
    change("osd crush rule rm", &[NAME], "take a rule away", placement::remove_rule),
    change("osd crush tunables", PROFILE_ARGS, "choose the tunables: those of the map are the newest", placement::tunables),
    change("osd primary-affinity", AFFINITY_ARGS, "how gladly an OSD serves first, from 0 to 1", placement::primary_affinity),
    change("osd pg-upmap", UPMAP_ARGS, "say which OSDs a group is on", placement::upmap),
    change("osd pg-upmap-items", UPMAP_ARGS, "put some OSDs in the places of others for a group", placement::upmap_items),
    change("osd rm-pg-upmap", &[PG], "leave a group to CRUSH again", placement::remove_upmap),
    change("osd rm-pg-upmap-items", &[PG], "leave the places of a group to CRUSH again", placement::remove_upmap_items),
    show("osd erasure-code-profile ls", &[], "the profiles of erasure codes", osd::profiles),

    show("osd pool ls", &[DETAIL], "the pools", pool::list),
    show("osd pool get", &[POOL, arg("var", ArgKind::Choices(pool_set::GETTABLE))], "a property of a pool", pool_set::get),
    show("osd pool stats", &[opt("pool_name", ArgKind::Pool)], "what pools hold and what was done with it", pool::stats),
    change("osd pool set-quota", QUOTA_ARGS, "how much a pool may hold; 0: as much as there is room for", quota::set),
    show("osd pool get-quota", &[POOL], "what a pool may hold", quota::get),
    change("osd pool create", CREATE_ARGS, "make a pool", pool::create),
    change("osd pool delete", DELETE_ARGS, "remove a pool and all that is in it", pool::delete),
    change("osd pool rm", DELETE_ARGS, "remove a pool and all that is in it", pool::delete),
    change("osd pool rename", RENAME_ARGS, "give a pool another name", pool::rename),
    change("osd pool mksnap", SNAP_ARGS, "make a snapshot of a pool", pool_snaps::make),
    change("osd pool rmsnap", SNAP_ARGS, "remove a snapshot of a pool", pool_snaps::remove),
    change("osd pool set", SET_ARGS, "change a property of a pool", pool_set::set),
    change("osd pool application enable", &[POOL, APP, SURE], "say what a pool is for", pool::application_enable),
    change("osd pool application disable", &[POOL, APP, SURE], "say that a pool is not for something any more",
        pool::application_disable),
    change("osd pool application set", &[POOL, APP, KEY, arg("value", ArgKind::Text)],
        "note something about a pool for an application", pool::application_set),
    change("osd pool application rm", &[POOL, APP, KEY], "take such a note away", pool::application_remove),
    show("osd pool application get", APPLICATION_ARGS, "what pools are for, and such notes", pool::application_get),

    show("pg stat", &[], "the placement groups in a line", pg::stat),
    show("pg dump", &[DUMP_CONTENTS], "the placement groups", pg::dump),
    show("pg ls", &[opt("pool", ArgKind::Int { min: 0 }), STATES], "the placement groups, of a pool or in such states", pg::list),
    show("pg ls-by-pool", &[arg("poolstr", ArgKind::Pool), STATES], "a pool's placement groups", pg::list),
    show("pg ls-by-osd", BY_OSD_ARGS, "the placement groups that an OSD serves", pg::list),
    show("pg ls-by-primary", BY_OSD_ARGS, "the placement groups that an OSD serves first", pg::list_by_primary),
    show("pg map", &[arg("pgid", ArgKind::Pg)], "where a placement group is", pg::map),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_commands_have_the_same_words() {
        for (n, command) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[n + 1..].iter().all(|other| other.words != command.words), "{}", command.words);
        }
    }

    #[test]
    fn what_is_required_comes_before_what_is_not() {
        for command in COMMANDS {
            let required: Vec<bool> = command.args.iter().map(|arg| arg.required).collect();
            assert!(required.is_sorted_by(|a, b| a >= b), "{}", command.words);
        }
    }
}
