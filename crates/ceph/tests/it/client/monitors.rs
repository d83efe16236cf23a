//! The monitor session: search, continuity, and answers.

use crate::client::fake::{FSID, Fake, Health, Node, POOL, SECOND, write};
use onego_buf::List;
use onego_ceph::client::{Error, Event, Outcome};
use onego_ceph::messages::{MapUpdate, ObjectName};
use onego_msgr::Message;
use onego_msgr::encoding::Encode;

fn has_map(fake: &Fake) -> bool {
    fake.client.osdmap().is_some()
}

#[test]
fn the_first_monitor_that_answers_is_used() {
    let mut fake = Fake::new(5, 1);
    fake.run_until_idle();
    assert!(has_map(&fake));
    let open: usize = (0..5).map(|mon| fake.connections(Node::Mon(mon)).len()).sum();
    assert_eq!(open, 1, "the others are closed");
    assert_eq!(fake.opened.values().sum::<usize>(), 3, "three are tried at the same time");
    assert_eq!(fake.client.fsid(), Some(FSID));
    assert!(fake.client.global_id() > 4242);
    assert_eq!(fake.client.monmap().unwrap().monitors.len(), 5);
}

#[test]
fn dead_monitors_are_skipped() {
    for alive in 0..4 {
        let mut fake = Fake::new(4, 1);
        (0..4).filter(|mon| *mon != alive).for_each(|mon| fake.set_health(Node::Mon(mon), Health::Dead));
        fake.run_until_idle();
        assert!(has_map(&fake), "monitor {alive} is found immediately");
    }
}

#[test]
fn silent_monitors_are_abandoned_after_the_hunt_interval() {
    let mut fake = Fake::with(4, 1, |config| config.mon.hunt_parallel = 1);
    (0..3).for_each(|mon| fake.set_health(Node::Mon(mon), Health::Silent));
    fake.advance(12 * SECOND);
    assert!(has_map(&fake));
}

#[test]
fn dead_monitors_are_retried_with_growing_delays() {
    let mut fake = Fake::new(3, 1);
    (0..3).for_each(|mon| fake.set_health(Node::Mon(mon), Health::Dead));
    fake.advance(60 * SECOND);
    let tries = fake.opened.values().sum::<usize>();
    assert!((15..60).contains(&tries), "{tries} connections in a minute");
    fake.set_health(Node::Mon(1), Health::Up);
    fake.advance(31 * SECOND);
    assert!(has_map(&fake));
}

#[test]
fn the_seed_determines_the_order_of_monitors() {
    let first = |seed| {
        let mut fake = Fake::with(3, 1, |config| {
            config.mon.hunt_parallel = 1;
            config.seed = seed;
        });
        fake.run_until_idle();
        *fake.opened.keys().next().unwrap()
    };
    let order: Vec<Node> = (0..20).map(first).collect();
    assert_eq!(order, (0..20).map(first).collect::<Vec<_>>());
    assert!((0..3).all(|mon| order.contains(&Node::Mon(mon))));
}

#[test]
fn monitors_of_a_lower_priority_are_tried_first_and_the_others_after_them() {
    let with_priorities = |first: Health| {
        let mut fake = Fake::with(5, 1, |config| {
            let priorities = [7, 3, 7, 3, 9];
            config
                .monitors
                .iter_mut()
                .zip(priorities)
                .for_each(|(monitor, priority)| monitor.priority = priority);
        });
        [1, 3].into_iter().for_each(|mon| fake.set_health(Node::Mon(mon), first));
        fake
    };
    let mut fake = with_priorities(Health::Up);
    fake.run_until_idle();
    assert!(has_map(&fake));
    assert_eq!(fake.opened.keys().copied().collect::<Vec<_>>(), [Node::Mon(1), Node::Mon(3)]);

    let mut fake = with_priorities(Health::Dead);
    fake.run_until_idle();
    assert!(has_map(&fake) && !fake.opened.contains_key(&Node::Mon(4)));

    let mut fake = with_priorities(Health::Silent);
    fake.run_until_idle();
    assert!(!has_map(&fake) && fake.opened.len() == 2);
    fake.advance(4 * SECOND);
    assert!(has_map(&fake) && !fake.opened.contains_key(&Node::Mon(4)));
}

#[test]
fn requests_are_resent_in_a_new_monitor_session() {
    let mut fake = Fake::ready(3, 1);
    (0..3).for_each(|mon| fake.mons[mon].mute = true);
    let ticket = fake.ticket();
    fake.client.command(fake.now, "{\"prefix\": \"status\"}", List::new(), ticket);
    fake.run_until_idle();
    assert!(fake.done.is_empty());
    let session = (0..3).find(|mon| !fake.connections(Node::Mon(*mon)).is_empty()).unwrap();
    (0..3).for_each(|mon| fake.mons[mon].mute = false);
    fake.set_health(Node::Mon(session), Health::Dead);
    fake.run_until_idle();
    let done = fake.take_done(ticket).unwrap();
    let Ok(Outcome::Command(reply)) = done.outcome else { panic!("{:?}", done.outcome) };
    assert_eq!((reply.result, reply.output.to_vec()), (0, b"output".to_vec()));
    let again: Vec<usize> = (0..3).filter(|mon| !fake.connections(Node::Mon(*mon)).is_empty()).collect();
    assert!(again.len() == 1 && again[0] != session);
    assert_eq!(fake.mons[again[0]].commands, ["{\"prefix\": \"status\"}"]);
}

#[test]
fn requests_wait_for_the_monitor_session() {
    let mut fake = Fake::new(1, 1);
    let tickets = [fake.ticket(), fake.ticket(), fake.ticket(), fake.ticket()];
    fake.client.statfs(fake.now, Some(POOL), tickets[0]);
    fake.client.newest_version(fake.now, "osdmap", tickets[1]);
    fake.client.create_pool(fake.now, "new", Some(16), tickets[2]);
    fake.client.delete_pool(fake.now, "old", tickets[3]);
    fake.run_until_idle();
    let mut outcome = |n: usize| fake.take_done(tickets[n]).unwrap().outcome.unwrap();
    assert!(matches!(outcome(0), Outcome::Statfs(statfs) if statfs.kb == 100));
    assert_eq!(outcome(1), Outcome::Version(1));
    assert!(matches!(outcome(2), Outcome::Command(_)) && matches!(outcome(3), Outcome::Command(_)));
    let commands = &fake.mons[0].commands;
    assert!(commands[0].contains("\"pg_num\":16") && commands[0].contains("osd pool create"));
    assert!(
        commands[1].contains("\"yes_i_really_really_mean_it\":true")
            && commands[1].contains("\"pool2\":\"old\"")
    );
}

#[test]
fn a_monitor_request_fails_after_its_timeout() {
    let mut fake = Fake::with(1, 1, |config| config.mon.request_timeout = Some(2 * SECOND));
    fake.mons[0].mute = true;
    let ticket = fake.ticket();
    fake.client.statfs(fake.now, None, ticket);
    fake.advance(SECOND);
    assert!(fake.done.is_empty());
    fake.advance(SECOND);
    let error = fake.take_done(ticket).unwrap().outcome.unwrap_err();
    assert!(matches!(error, Error::Timeout { after, .. } if after == 2 * SECOND), "{error:?}");
    assert!(error.to_string().contains("an answer of the monitors"), "{error}");
}

#[test]
fn monitor_requests_are_limited() {
    let mut fake = Fake::with(1, 1, |config| config.mon.max_requests = 1);
    let tickets = [fake.ticket(), fake.ticket()];
    for ticket in tickets {
        fake.client.statfs(fake.now, None, ticket);
    }
    assert!(matches!(fake.take_done(tickets[1]).unwrap().outcome, Err(Error::Busy { bound: 1, .. })));
}

#[test]
fn a_silent_monitor_is_replaced() {
    let mut fake = Fake::ready(2, 1);
    let session = (0..2).find(|mon| !fake.connections(Node::Mon(*mon)).is_empty()).unwrap();
    fake.stall_after(Node::Mon(session), 0);
    fake.advance(31 * SECOND);
    assert_eq!(fake.connections(Node::Mon(1 - session)).len(), 1);
}

#[test]
fn maps_arrive_as_increments() {
    let mut fake = Fake::ready(1, 2);
    fake.want_map();
    fake.publish(|change| change.new_weight.insert(1, 0x8000));
    fake.run_until_idle();
    assert_eq!(fake.client.osdmap().map(AsRef::as_ref), Some(&fake.map));
    assert_eq!(fake.mons[0].subscriptions, [(0, true), (2, true)]);
    assert!(fake.events.contains(&Event::Map(2)));
    // The subscription is for a single map.
    fake.publish(|change| change.new_weight.insert(1, 0x9000));
    fake.run_until_idle();
    assert_eq!(fake.client.osdmap().unwrap().epoch, 2);
}

#[test]
fn the_client_requests_missing_maps() {
    let mut fake = Fake::ready(1, 1);
    for n in 1..5 {
        fake.publish_quietly(|change| change.new_weight.insert(0, n));
    }
    let conn = fake.connections(Node::Mon(0))[0];
    let mut update = fake.update_from(4);
    update.full.clear();
    fake.send(conn, 0, &update);
    fake.run_until_idle();
    assert_eq!(fake.client.osdmap().unwrap().epoch, 5);
    assert_eq!(fake.mons[0].subscriptions.last(), Some(&(2, true)));
}

#[test]
fn the_client_requests_a_full_map_after_an_invalid_increment() {
    let mut fake = Fake::ready(1, 1);
    fake.want_map();
    let mut damaged = onego_ceph::osdmap::Incremental { fsid: FSID, epoch: 2, ..Default::default() };
    damaged.new_weight.insert(77, 1);
    fake.publish_quietly(|change| change.new_weight.insert(0, 1));
    fake.changes.insert(2, damaged.to_bytes());
    fake.tell_subscribers();
    fake.run_until_idle();
    assert!(fake.events.iter().any(|event| matches!(event, Event::BadMap(Error::BadMap { epoch: 2, .. }))));
    assert_eq!(fake.client.osdmap().map(AsRef::as_ref), Some(&fake.map));
    assert_eq!(fake.mons[0].subscriptions.last(), Some(&(0, true)));
}

#[test]
fn an_invalid_full_map_fails_waiting_requests() {
    let mut fake = Fake::new(1, 1);
    let good = fake.whole.insert(1, vec![1, 2, 3]).unwrap();
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.run_until_idle();
    assert!(matches!(fake.expect_error(ticket), Error::BadMap { epoch: 1, .. }));
    assert!(!has_map(&fake));
    fake.whole.insert(1, good);
    fake.publish(|change| change.new_weight.insert(0, 0x1_0000));
    fake.run_until_idle();
    assert!(has_map(&fake), "the next one may be valid");
}

#[test]
fn maps_of_another_cluster_are_rejected() {
    let mut fake = Fake::ready(1, 1);
    let conn = fake.connections(Node::Mon(0))[0];
    let stranger = MapUpdate { newest: 9, ..MapUpdate::default() };
    fake.send(conn, 0, &stranger);
    fake.run_until_idle();
    assert!(fake.events.iter().any(|event| matches!(event, Event::BadMap(_))));
    assert_eq!(fake.client.osdmap().unwrap().epoch, 1);
}

#[test]
fn a_monitor_that_sends_garbage_is_replaced() {
    let mut fake = Fake::ready(2, 1);
    let session = (0..2).find(|mon| !fake.connections(Node::Mon(*mon)).is_empty()).unwrap();
    let conn = fake.connections(Node::Mon(session))[0];
    fake.server(conn).unwrap().send(Message::new(onego_ceph::messages::kind::MON_MAP, 1, 1, vec![1, 2]));
    fake.run_until_idle();
    assert_eq!(fake.connections(Node::Mon(1 - session)).len(), 1);
    let blamed = |event: &Event| matches!(event, Event::Fault { error: Error::BadReply(_), .. });
    assert!(fake.events.iter().any(blamed));
}

#[test]
fn the_client_keeps_its_id_in_later_sessions() {
    let mut fake = Fake::ready(2, 1);
    let first = fake.client.global_id();
    fake.break_connections(Node::Mon(0));
    fake.break_connections(Node::Mon(1));
    fake.advance(SECOND);
    assert!(fake.opened.values().sum::<usize>() > 2);
    assert_eq!(fake.client.global_id(), first);
    fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.run_until_idle();
    let osd = fake.connections(Node::Osd(0))[0];
    assert_eq!(fake.peers[&osd], first, "OSDs know it by that id");
}
