//! Compile-time checks: an executor may move every future of the public interface between its threads.

use onego::ceph::Error;
use onego::nfs::{self, Dir, File, Mount, Reader, Writer};
use onego::rados::*;
use onego::rbd::pools::mirroring;
use onego::rbd::{self, *};
use onego::{List, Listing, Segment, SegmentMut};

use std::path::Path;

fn any<T>() -> T {
    unreachable!("nothing here runs")
}

fn is_send(_: impl Send) {}

/// Returns the name of every public asynchronous function of the sources in a folder.
fn public_futures(folder: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            public_futures(&path, names);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            let heads = text.lines().filter_map(|line| line.trim_start().strip_prefix("pub async fn "));
            names.extend(heads.filter_map(|head| Some(head.split(['(', '<']).next()?.to_owned())));
        }
    }
}

#[test]
fn every_public_future_is_checked() {
    let mut names = Vec::new();
    public_futures(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
    // A reactor stays on its thread.
    names.retain(|name| name != "drive");
    assert!(names.len() > 200, "{names:?}");
    for name in names {
        assert!(include_str!("send.rs").contains(&format!("::{name}(")), "no check of {name}");
    }
}

#[expect(dead_code, reason = "compiled only")]
fn objects() {
    is_send(Listing::try_next(&mut any::<Listing<u8, Error>>()));
    is_send(Listing::all(any::<Listing<u8, Error>>()));
    is_send(Cluster::close(any::<Cluster>()));
    is_send(Cluster::ready(&any::<Cluster>()));
    is_send(Cluster::command(&any::<Cluster>(), any(), any()));
    is_send(Cluster::command_reply(&any::<Cluster>(), any(), any()));
    is_send(Cluster::usage(&any::<Cluster>()));
    is_send(Cluster::pool_usage(&any::<Cluster>(), any()));
    is_send(Cluster::fsid(&any::<Cluster>()));
    is_send(Cluster::pools(&any::<Cluster>()));
    is_send(Cluster::delete_pool(&any::<Cluster>(), any()));
    is_send(Cluster::connect(any()));
    is_send(Pool::lock(&any::<Pool>(), any(), any(), any()));
    is_send(Pool::break_lock(&any::<Pool>(), any(), any(), any(), any()));
    is_send(Pool::locks(&any::<Pool>(), any()));
    is_send(Pool::lock_info(&any::<Pool>(), any(), any()));
    is_send(ClusterLog::next(&mut any::<ClusterLog>()));
    is_send(Cluster::follow_log(&any::<Cluster>(), any()));
    is_send(Cluster::pool(&any::<Cluster>(), any()));
    is_send(Cluster::pool_by_id(&any::<Cluster>(), any()));
    is_send(Cluster::create_pool(&any::<Cluster>(), any(), any()));
    is_send(Pool::operate_write(&any::<Pool>(), any(), any()));
    is_send(Pool::operate_read(&any::<Pool>(), any(), any()));
    is_send(Pool::read(&any::<Pool>(), any(), any(), any()));
    is_send(Pool::read_into(&any::<Pool>(), any(), any(), any::<SegmentMut>()));
    is_send(Pool::sparse_read(&any::<Pool>(), any(), any(), any()));
    is_send(Pool::write(&any::<Pool>(), any(), any(), any::<List>()));
    is_send(Pool::write_full(&any::<Pool>(), any(), any::<List>()));
    is_send(Pool::append(&any::<Pool>(), any(), any::<List>()));
    is_send(Pool::truncate(&any::<Pool>(), any(), any()));
    is_send(Pool::zero(&any::<Pool>(), any(), any(), any()));
    is_send(Pool::create(&any::<Pool>(), any(), any()));
    is_send(Pool::remove(&any::<Pool>(), any()));
    is_send(Pool::stat(&any::<Pool>(), any()));
    is_send(Pool::get_xattr(&any::<Pool>(), any(), any()));
    is_send(Pool::xattrs(&any::<Pool>(), any()));
    is_send(Pool::set_xattr(&any::<Pool>(), any(), any(), any::<List>()));
    is_send(Pool::remove_xattr(&any::<Pool>(), any(), any()));
    is_send(Pool::omap(&any::<Pool>(), any(), any(), any()));
    is_send(Pool::set_omap(&any::<Pool>(), any(), any()));
    is_send(Pool::remove_omap(&any::<Pool>(), any(), any()));
    is_send(Pool::exec(&any::<Pool>(), any(), any(), any(), any::<List>()));
    is_send(Pool::call(&any::<Pool>(), any(), any::<&onego_ceph::cls::rbd::DirStateSet>()));
    is_send(Pool::list_page(&any::<Pool>(), any(), any(), any()));
    is_send(Cluster::request(&any::<Cluster>(), any()));
    is_send(Cluster::osd_map(&any::<Cluster>()));
    is_send(Cluster::newest_osd_map(&any::<Cluster>()));
    is_send(Cluster::pool_op(&any::<Cluster>(), any()));
    is_send(Cluster::global_id(&any::<Cluster>()));
    is_send(Cluster::own_addr(&any::<Cluster>()));
    is_send(Cluster::monitors(&any::<Cluster>()));
    is_send(Cluster::ping_monitor(&any::<Cluster>()));
    is_send(Cluster::monitor_command_reply(&any::<Cluster>(), any(), any()));
    is_send(Cluster::osd_command_reply(&any::<Cluster>(), any(), any(), any()));
    is_send(Cluster::inconsistent_groups(&any::<Cluster>(), any()));
    is_send(Cluster::statfs(&any::<Cluster>(), any()));
    is_send(Watch::close(any::<Watch>()));
    is_send(Watch::next(&mut any::<Watch>()));
    is_send(WatchMonitor::age(&any::<WatchMonitor>()));
    is_send(Pool::watch(&any::<Pool>(), any()));
    is_send(Pool::notify(&any::<Pool>(), any(), any::<List>(), any()));
    is_send(Pool::watchers(&any::<Pool>(), any()));
}

#[expect(dead_code, reason = "compiled only")]
fn nfs() {
    is_send(Dir::lookup(&any::<Dir>(), any()));
    is_send(Dir::create(&any::<Dir>(), any(), any(), any()));
    is_send(Dir::link(&any::<Dir>(), any(), any()));
    is_send(Dir::rename(&any::<Dir>(), any(), any()));
    is_send(Dir::remove(&any::<Dir>(), any()));
    is_send(Dir::rmdir(&any::<Dir>(), any()));
    is_send(File::attributes(&any::<File>()));
    is_send(File::set_attributes(&any::<File>(), any()));
    is_send(File::read(&any::<File>(), any(), any()));
    is_send(File::read_into(&any::<File>(), any(), any()));
    is_send(File::write(&any::<File>(), any(), any::<List>()));
    is_send(File::write_stable(&any::<File>(), any(), any::<List>()));
    is_send(File::sync(&any::<File>()));
    is_send(Mount::connect(any(), "path"));
    is_send(Mount::connect_path(any(), "path"));
    is_send(Mount::open(&any::<Mount>(), "path"));
    is_send(Mount::create(&any::<Mount>(), "path", any(), any()));
    is_send(Mount::stat(&any::<Mount>(), "path"));
    is_send(Mount::lstat(&any::<Mount>(), "path"));
    is_send(Mount::set_attributes(&any::<Mount>(), "path", any()));
    is_send(Mount::access(&any::<Mount>(), "path", any()));
    is_send(Mount::mkdir(&any::<Mount>(), "path", any()));
    is_send(Mount::symlink(&any::<Mount>(), "path", "path"));
    is_send(Mount::mknod(&any::<Mount>(), "path", any()));
    is_send(Mount::read_link(&any::<Mount>(), "path"));
    is_send(Mount::link(&any::<Mount>(), "path", "path"));
    is_send(Mount::rename(&any::<Mount>(), "path", "path"));
    is_send(Mount::remove(&any::<Mount>(), "path"));
    is_send(Mount::rmdir(&any::<Mount>(), "path"));
    is_send(Mount::read_dir(&any::<Mount>(), "path"));
    is_send(Mount::statfs(&any::<Mount>()));
    is_send(Mount::resolve(&any::<Mount>(), "path"));
    is_send(Mount::dir(&any::<Mount>(), "path"));
    is_send(nfs::Reader::next(&mut any::<Reader>()));
    is_send(Writer::write(&mut any::<Writer>(), any::<List>()));
    is_send(Writer::finish(any::<Writer>()));
}

#[expect(dead_code, reason = "compiled only")]
fn open_images() {
    is_send(Diff::open(any(), any(), any()));
    is_send(Diff::next(&mut any::<Diff>()));
    is_send(Image::format_encryption(&any::<Image>(), any()));
    is_send(Image::load_encryption(any::<Image>(), any()));
    is_send(ImageDetails::of(any(), any()));
    is_send(ImageDetails::of_id(any(), any()));
    is_send(ImageDetails::of_known(any(), any()));
    is_send(ImageDetails::parent_name(&any::<ImageDetails>(), any()));
    is_send(ImageDetails::group_name(&any::<ImageDetails>(), any()));
    is_send(Parent::name(&any::<Parent>(), any()));
    is_send(ImageInfo::current_name(&any::<ImageInfo>(), any()));
    is_send(Image::lock(&any::<Image>()));
    is_send(Image::own(&any::<Image>()));
    is_send(Image::fence(&any::<Image>()));
    is_send(Image::unlock(&any::<Image>()));
    is_send(Image::refresh(&any::<Image>()));
    is_send(Image::read(&any::<Image>(), any(), any()));
    is_send(Image::read_into(&any::<Image>(), any(), any::<SegmentMut>()));
    is_send(Image::write(&any::<Image>(), any(), any::<List>()));
    is_send(Image::compare_and_write(&any::<Image>(), any(), any::<List>(), any::<List>()));
    is_send(Image::discard(&any::<Image>(), any(), any()));
    is_send(Image::write_zeroes(&any::<Image>(), any(), any()));
    is_send(Image::flush(&any::<Image>()));
    is_send(Image::close(any::<Image>()));
    is_send(Image::open(any(), any()));
    is_send(Image::open_by_id(any(), any()));
    is_send(Image::open_known(any(), any()));
    is_send(Image::open_read_only(any(), any()));
    is_send(Image::open_by_id_read_only(any(), any()));
    is_send(Image::open_known_read_only(any(), any()));
    is_send(Image::open_at(any(), any(), any()));
    is_send(Image::open_known_at(any(), any(), any()));
    is_send(Image::resize(&any::<Image>(), any(), |_, _| {}));
    is_send(ExportImage::open(any(), any()));
    is_send(ExportImage::next(&mut any::<ExportImage>()));
    is_send(ExportDiff::open(any(), any(), any()));
    is_send(ExportDiff::next(&mut any::<ExportDiff>()));
    is_send(ImportImage::push(&mut any::<ImportImage>(), any::<Segment>()));
    is_send(ImportImage::applied(&mut any::<ImportImage>()));
    is_send(ImportImage::finish(any::<ImportImage>()));
    is_send(ImportImage::abandon(any::<ImportImage>()));
    is_send(ImportDiff::push(&mut any::<ImportDiff>(), any::<Segment>()));
    is_send(ImportDiff::applied(&mut any::<ImportDiff>()));
    is_send(ImportDiff::finish(any::<ImportDiff>()));
    is_send(ImportDiff::abandon(any::<ImportDiff>()));
    is_send(ImageWatch::open(any(), any()));
    is_send(ImageWatch::next(&mut any::<ImageWatch>()));
    is_send(ImageWatch::close(any::<ImageWatch>()));
}

#[expect(dead_code, reason = "compiled only")]
fn images_by_name() {
    is_send(rbd::remove(any(), any(), |_, _| {}));
    is_send(clones::children(any(), any(), any()));
    is_send(clones::children_of_id(any(), any(), any()));
    is_send(clones::clone(any(), any(), any(), any()));
    is_send(clones::clone_by_id(any(), any(), any(), any()));
    is_send(clones::flatten(any(), any(), |_, _| {}));
    is_send(rbd::create(any(), any(), any()));
    is_send(rbd::info(any(), any()));
    is_send(rbd::image_name(any(), any()));
    is_send(rbd::metadata(any(), any(), any()));
    is_send(rbd::all_metadata(any(), any()));
    is_send(rbd::set_metadata(any(), any(), any(), any()));
    is_send(rbd::remove_metadata(any(), any(), any()));
    is_send(migration::execute(any(), any(), |_, _| {}));
    is_send(migration::prepare_import(any(), any(), any()));
    is_send(migration::prepare(any(), any(), any(), any()));
    is_send(migration::commit(any(), any(), |_, _| {}));
    is_send(migration::abort(any(), any(), |_, _| {}));
    is_send(migration::status(any(), any()));
    is_send(migration::source_spec(any(), any()));
    is_send(pools::group_images(any(), any()));
    is_send(pools::add_to_group(any(), any()));
    is_send(pools::remove_from_group(any(), any()));
    is_send(pools::group_snapshots(any(), any()));
    is_send(pools::group_snapshot_names(any(), any(), any(), any()));
    is_send(pools::create_group_snapshot(any(), any(), any(), any()));
    is_send(pools::rename_group_snapshot(any(), any(), any(), any()));
    is_send(pools::remove_group_snapshot(any(), any(), any()));
    is_send(pools::rollback_group(any(), any(), any(), |_, _| {}));
    is_send(pools::groups(any()));
    is_send(pools::create_group(any(), any()));
    is_send(pools::rename_group(any(), any(), any()));
    is_send(pools::remove_group(any(), any()));
    is_send(pools::init(any(), any()));
    is_send(mirroring::mode(any()));
    is_send(mirroring::set_mode(any(), any()));
    is_send(mirroring::uuid(any()));
    is_send(mirroring::remote_namespace(any()));
    is_send(mirroring::set_remote_namespace(any(), any()));
    is_send(mirroring::peers(any()));
    is_send(mirroring::add_peer(any(), any(), any(), any()));
    is_send(mirroring::remove_peer(any(), any()));
    is_send(mirroring::change_mirroring(any(), any::<&onego_ceph::cls::rbd::DirStateSet>()));
    is_send(mirroring::images(any()));
    is_send(mirroring::has_images(any(), any()));
    is_send(mirroring::status_summary(any()));
    is_send(mirroring::image(any(), any()));
    is_send(pools::rename(any(), any(), any()));
    is_send(pools::namespaces(any()));
    is_send(pools::namespace_exists(any(), any()));
    is_send(pools::create_namespace(any(), any()));
    is_send(pools::remove_namespace(any(), any()));
    is_send(pools::pool_settings(any()));
    is_send(pools::pool_setting(any(), any()));
    is_send(pools::set_pool_setting(any(), any(), any()));
    is_send(pools::remove_pool_setting(any(), any()));
    is_send(pools::trash(any()));
    is_send(pools::move_to_trash(any(), any(), any()));
    is_send(pools::restore(any(), any(), any()));
    is_send(pools::remove_from_trash(any(), any(), any(), |_, _| {}));
    is_send(pools::purge_trash(any(), any(), |_, _| {}));
    is_send(rbd::resize(any(), any(), any(), |_, _| {}));
    is_send(snapshots::create(any(), any(), any()));
    is_send(snapshots::create_quiesced(any(), any(), any(), any()));
    is_send(snapshots::list(any(), any()));
    is_send(snapshots::rename(any(), any(), any(), any()));
    is_send(snapshots::limit(any(), any()));
    is_send(snapshots::set_limit(any(), any(), any()));
    is_send(snapshots::protect(any(), any(), any()));
    is_send(snapshots::unprotect(any(), any(), any()));
    is_send(snapshots::remove(any(), any(), any()));
    is_send(snapshots::remove_by_id(any(), any(), any()));
    is_send(snapshots::purge(any(), any(), |_, _| {}));
    is_send(snapshots::rollback(any(), any(), any(), |_, _| {}));
    is_send(upkeep::copy(any(), any(), any(), |_, _| {}));
    is_send(upkeep::deep_copy(any(), any(), any(), any(), |_, _| {}));
    is_send(upkeep::enable_features(any(), any(), any()));
    is_send(upkeep::disable_features(any(), any(), any()));
    is_send(upkeep::locks(any(), any()));
    is_send(upkeep::add_lock(any(), any(), any(), any()));
    is_send(upkeep::remove_lock(any(), any(), any(), any()));
    is_send(upkeep::rebuild_object_map(any(), any(), any(), |_, _| {}));
    is_send(upkeep::check_object_map(any(), any(), any(), |_, _| {}));
    is_send(upkeep::sparsify(any(), any(), any(), |_, _| {}));
    is_send(upkeep::watchers(any(), any()));
    is_send(upkeep::watch(any(), any()));
}
