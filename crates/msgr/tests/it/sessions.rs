//! Sessions whose connections break: every message arrives once and in order.

use crate::session_world::{Line, Mode, Seen, Troubles, World};
use onego_msgr::Policy;
use onego_msgr::auth::Lifetimes;
use onego_testkit::seeds::{Seeds, is_long};
use std::time::Duration;

const SEEDS: Seeds = Seeds { short: 200, long: 1000 };

/// The short form cuts connections at every seventh byte, the long form at every byte.
const CUTS_STEP: usize = 7;

#[test]
fn nothing_is_lost_or_duplicated_over_connections_that_break_anywhere() {
    let seen = SEEDS.each("-p onego-msgr --test it sessions::", |seed| {
        let mut world = World::of_seed(seed);
        // Initially, lines may break before anything gets through.
        for _ in 0..3000 {
            world.step(40);
        }
        world.troubles = Troubles {
            breaks: world.troubles.breaks.max(20_000),
            damage: None,
            restarts: None,
            ..world.troubles
        };
        world.run(40);
        world.seen
    });
    let Some(worlds) = seen else { return };
    let mut seen = Seen::default();
    worlds.into_iter().for_each(|world| seen += world);
    println!("{seen:?}");
    let Seen { broken, damaged, restarts, lost, refused, waits, refused_tickets, compressed } = seen;
    let everything = [broken, damaged, restarts, lost, refused, waits, refused_tickets, compressed];
    assert!(everything.iter().all(|seen| *seen > 0), "{seen:?}");
}

fn modes() -> impl Iterator<Item = (Mode, [Policy; 2])> {
    Mode::ALL.into_iter().flat_map(|mode| mode.policies().iter().map(move |policies| (mode, *policies)))
}

/// Creates a world in which both ends have something to send. With `has_session`, they have a session whose connection
/// broke.
fn eager(seed: u64, mode: Mode, policies: [Policy; 2], has_session: bool) -> World {
    let mut world = World::new(seed, mode, policies, Troubles::NONE);
    if has_session {
        world.run(1);
        world.break_lines();
    }
    (0..2).for_each(|end| world.send(end));
    world
}

/// Lets the ends that may connect do so, all at once.
fn connect(world: &mut World, ends: &[usize]) {
    ends.iter().for_each(|end| world.connect(*end));
}

/// Cuts the first connections, or those after the first, at each byte that they carry.
fn cut_everywhere(has_session: bool) {
    for (mode, policies) in modes() {
        for ends in [&[0, 1][..], &[0], &[1]] {
            let sends = if has_session { 2 } else { 1 };
            let mut whole = eager(1, mode, policies, has_session);
            let before = whole.lines.len();
            connect(&mut whole, ends);
            if whole.lines.len() == before {
                continue; // It waits for the other end to connect.
            }
            whole.exchange(usize::MAX);
            let longest = whole.lines[before..].iter().map(Line::carried).max().unwrap_or_default() as usize;
            assert!(longest > 300, "{mode:?} has a handshake");
            for cut in (0..=longest).step_by(if is_long() { 1 } else { CUTS_STEP }) {
                let mut world = eager(1, mode, policies, has_session);
                // Successive lines that carry `cut` bytes each.
                for _ in 0..2 {
                    connect(&mut world, ends);
                    world.exchange(cut);
                    world.now = world.now + Duration::from_secs(1);
                }
                world.break_lines();
                world.run(sends);
            }
        }
    }
}

#[test]
fn a_session_begins_wherever_its_first_connections_break() {
    cut_everywhere(false);
}

#[test]
fn a_session_resumes_wherever_its_next_connections_break() {
    cut_everywhere(true);
}

#[test]
fn a_session_resumes_at_the_first_attempt_without_a_competing_one() {
    for (mode, policies) in modes() {
        for end in [0, 1] {
            let mut world = eager(1, mode, policies, true);
            let before = world.lines.len();
            connect(&mut world, &[end]);
            if world.lines.len() > before {
                world.exchange(usize::MAX);
                assert_eq!(world.ends.each_ref().map(|end| end.carrier), [Some(before); 2], "{mode:?}");
                assert_eq!(world.seen.refused, 0, "{mode:?}");
                world.settle(2);
            }
        }
    }
}

#[test]
fn of_two_simultaneous_connections_that_of_the_lower_address_wins() {
    let races = modes().filter(|(_, policies)| policies.iter().all(|policy| !policy.server));
    let races: Vec<_> = races.collect();
    SEEDS.each("-p onego-msgr --test it of_two", |seed| {
        for (mode, policies) in &races {
            for has_session in [false, true] {
                let mut world = eager(seed, *mode, *policies, has_session);
                let before = world.lines.len();
                connect(&mut world, &[0, 1]);
                world.settle(if has_session { 2 } else { 1 });
                assert_eq!(world.lines.len(), before + 2);
                assert_eq!(world.ends.each_ref().map(|end| end.carrier), [Some(before); 2], "{mode:?}");
            }
        }
    });
}

#[test]
fn a_refused_ticket_of_an_expired_key_is_renewed_and_the_session_resumes() {
    for mode in [Mode::Crc, Mode::Secure, Mode::Signed] {
        let lifetimes = Lifetimes { monitor: Duration::from_secs(3600), service: Duration::from_secs(10) };
        let troubles = Troubles { lifetimes, ..Troubles::NONE };
        let mut world = World::new(1, mode, [Policy::LOSSLESS_PEER; 2], troubles);
        world.run(1);
        let start = world.now;
        world.now = start + Duration::from_secs(8);
        // While it waits for the answer, the other end gets tickets of five keys.
        world.see_to_tickets(0, Some(Duration::from_secs(40)));
        for _ in 0..5 {
            world.see_to_tickets(1, Some(Duration::ZERO));
            world.now = world.now + Duration::from_secs(8);
        }
        world.see_to_tickets(0, None);
        assert_eq!(world.seen.refused_tickets, 0);
        world.break_lines();
        world.send(0);
        world.connect(0);
        world.exchange(usize::MAX);
        assert_eq!((world.seen.refused_tickets, world.ends[0].carrier), (1, None), "{mode:?}");
        world.send(1);
        world.run(2);
    }
}
