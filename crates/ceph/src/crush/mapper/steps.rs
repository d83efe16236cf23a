//! Execution of a rule's steps.
//!
//! Source: ceph `src/crush/mapper.c`, `crush_do_rule_no_retry`.

use super::firstn::Firstn;
use super::indep::Indep;
use super::settings::Settings;
use super::state::{Exhausted, ITEM_UNDEF, Mapper};
use crate::crush::rule::{Rule, Step, StepOp};

/// Memory of such a rule: the items that the next step starts from, the items that the current step finds, and the leaves
/// below them.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    from: Vec<i32>,
    found: Vec<i32>,
    leaves: Vec<i32>,
}

pub(super) fn run(
    mapper: &mut Mapper<'_>,
    rule: &Rule,
    result_max: usize,
    vectors: &mut Vectors,
    result: &mut Vec<i32>,
) -> Result<(), Exhausted> {
    let map = mapper.map;
    let mut settings = Settings::of(&map.tunables);
    vectors.from.clear();
    for step in &rule.steps {
        match step.op {
            StepOp::TAKE if map.bucket(step.arg1).is_some() || (0..map.max_devices).contains(&step.arg1) => {
                vectors.from.clear();
                vectors.from.push(step.arg1);
            }
            StepOp::CHOOSE_FIRSTN
            | StepOp::CHOOSE_INDEP
            | StepOp::CHOOSELEAF_FIRSTN
            | StepOp::CHOOSELEAF_INDEP
                if !vectors.from.is_empty() =>
            {
                choose(mapper, step, settings, result_max, vectors)?;
            }
            StepOp::EMIT => result.extend(vectors.from.drain(..).take(result_max - result.len())),
            _ => settings.set(step),
        }
    }
    Ok(())
}

fn choose(
    mapper: &mut Mapper<'_>,
    step: &Step,
    settings: Settings,
    result_max: usize,
    Vectors { from, found, leaves }: &mut Vectors,
) -> Result<(), Exhausted> {
    let to_leaf = matches!(step.op, StepOp::CHOOSELEAF_FIRSTN | StepOp::CHOOSELEAF_INDEP);
    let positional = matches!(step.op, StepOp::CHOOSE_INDEP | StepOp::CHOOSELEAF_INDEP);
    mapper.spend(result_max)?;
    for vector in [&mut *found, &mut *leaves] {
        vector.clear();
        vector.resize(result_max, ITEM_UNDEF);
    }
    let mut size = 0;
    if let Some(wanted) = wanted(step.arg1, result_max) {
        for bucket in from.iter().filter_map(|&item| mapper.map.bucket(item)) {
            let found = &mut found[size..];
            let leaves = to_leaf.then_some(&mut leaves[size..]);
            size += if positional {
                let places = found.len().min(wanted as usize);
                mapper.choose_indep(
                    bucket,
                    &Indep::new(settings, wanted, step.arg2),
                    0..places,
                    found,
                    leaves,
                )?;
                places
            } else {
                mapper.choose_firstn(bucket, &Firstn::new(settings, step.arg2), wanted, found, leaves)?
            };
        }
    }
    std::mem::swap(from, if to_leaf { leaves } else { found });
    from.truncate(size);
    Ok(())
}

/// Returns the number of items that a step wants: a count of 0 or less is relative to the result's size.
fn wanted(count: i32, result_max: usize) -> Option<u32> {
    let wanted = if count > 0 { i64::from(count) } else { i64::from(count) + result_max as i64 };
    u32::try_from(wanted).ok().filter(|&wanted| wanted > 0)
}
