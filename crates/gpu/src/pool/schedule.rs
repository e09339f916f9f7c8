//! The assignment of a pool's jobs to its devices.
//!
//! Jobs begin in the order of submission. The next one begins on the device that is expected to be done with it first,
//! of those that have an idle thread and room for its memory now. The expected time is that of the memory that the job
//! and the jobs under way there plan, by the seconds that the device has taken for the memory of earlier jobs: proofs
//! take time in proportion to their memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;

/// Names a job of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The work that a device of a pool has done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The device, or `cpu`.
    pub device: String,
    /// The jobs that it has finished.
    pub jobs: u64,
    /// The seconds in which it had at least one job.
    pub busy_seconds: f64,
    /// The error by which the device was lost, if it was.
    pub lost: Option<String>,
}

/// A job's fixed costs, in bytes: a job that plans less memory is not faster.
const LEAST_WORK: usize = 1 << 20;

/// A job that waits.
pub(super) struct Waiting<J> {
    pub(super) ticket: Ticket,
    pub(super) bytes: usize,
    pub(super) job: J,
}

struct Place {
    name: String,
    /// The bytes that the jobs under way share.
    budget: usize,
    /// The bytes of each job under way.
    running: BTreeMap<Ticket, usize>,
    lost: Option<String>,
    finished: u64,
    /// The work of jobs that succeeded, and the time in which there was a job under way, until `since`.
    work: f64,
    busy: Duration,
    /// The time at which the first of the jobs under way began, or a job ended since.
    since: Duration,
}

impl Place {
    fn used(&self) -> usize {
        self.running.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.running.is_empty() || self.used().saturating_add(bytes) <= self.budget
    }

    /// The seconds for a byte, if a job has succeeded here.
    fn pace(&self) -> Option<f64> {
        (self.work > 0.0).then(|| self.busy.as_secs_f64() / self.work)
    }
}

fn work(bytes: usize) -> f64 {
    bytes.max(LEAST_WORK) as f64
}

/// The jobs and devices of a pool. `now` is the time since some beginning.
pub(super) struct Schedule<J> {
    next: u64,
    waiting: VecDeque<Waiting<J>>,
    places: Vec<Place>,
    /// The most jobs on one device at a time.
    at_once: usize,
    /// The device that was lost last, if all are lost. Jobs end there.
    last: Option<usize>,
}

impl<J> Schedule<J> {
    /// Devices by name, with the bytes that jobs share on each.
    pub(super) fn new(places: impl IntoIterator<Item = (String, usize)>, at_once: usize) -> Self {
        let place = |(name, budget)| Place {
            name,
            budget,
            running: BTreeMap::new(),
            lost: None,
            finished: 0,
            work: 0.0,
            busy: Duration::ZERO,
            since: Duration::ZERO,
        };
        let places = places.into_iter().map(place).collect();
        Self { next: 0, waiting: VecDeque::new(), places, at_once, last: None }
    }

    pub(super) fn submit(&mut self, bytes: usize, job: J) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.push_back(Waiting { ticket, bytes, job });
        ticket
    }

    /// The next job, if it begins on device `place` now, and whether another attempt can follow this one.
    pub(super) fn begin(&mut self, place: usize, now: Duration) -> Option<(Waiting<J>, bool)> {
        let bytes = self.waiting.front()?.bytes;
        if self.chosen(bytes) != Some(place) {
            return None;
        }
        let job = self.waiting.pop_front()?;
        let may_move = self.last.is_none();
        let place = &mut self.places[place];
        if place.running.is_empty() {
            place.since = now;
        }
        place.running.insert(job.ticket, bytes);
        Some((job, may_move))
    }

    /// The place at which a job of these bytes begins now, if it can.
    fn chosen(&self, bytes: usize) -> Option<usize> {
        let is_idle = |place: &Place| place.running.len() < self.at_once;
        if let Some(last) = self.last {
            return is_idle(&self.places[last]).then_some(last);
        }
        // A job that fits on no device goes to one of the largest, where it works in parts or fails.
        let alive = || self.places.iter().enumerate().filter(|(_, place)| place.lost.is_none());
        let most = alive().map(|(_, place)| place.budget).max()?;
        let paces: Vec<f64> = alive().filter_map(|(_, place)| place.pace()).collect();
        let usual = if paces.is_empty() { 1.0 } else { paces.iter().sum::<f64>() / paces.len() as f64 };
        let expected = |place: &Place| {
            let under_way: f64 = place.running.values().map(|&bytes| work(bytes)).sum();
            (under_way + work(bytes)) * place.pace().unwrap_or(usual)
        };
        alive()
            .filter(|(_, place)| bytes.min(most) <= place.budget && is_idle(place) && place.has_room(bytes))
            // Of equal ones, one that has finished no job yet: its pace is only assumed, and the first may have had all
            // jobs so far because its threads were faster to begin.
            .min_by(|(_, a), (_, b)| {
                expected(a).total_cmp(&expected(b)).then((a.finished > 0).cmp(&(b.finished > 0)))
            })
            .map(|(index, _)| index)
    }

    /// A job has ended on device `place`. One that failed may have ended at once, so it says nothing about the pace.
    pub(super) fn end(&mut self, place: usize, ticket: Ticket, succeeded: bool, now: Duration) {
        let bytes = self.leave(place, ticket, now);
        let place = &mut self.places[place];
        place.finished += 1;
        if succeeded {
            place.work += work(bytes);
        }
    }

    /// Device `place` was lost: it gets no more jobs, unless all are lost and it is the last.
    pub(super) fn lose(&mut self, place: usize, reason: String) {
        self.places[place].lost.get_or_insert(reason);
        if self.places.iter().all(|place| place.lost.is_some()) {
            self.last.get_or_insert(place);
        }
    }

    /// A job leaves device `place` and waits again, before all others.
    pub(super) fn again(&mut self, place: usize, job: Waiting<J>, now: Duration) {
        self.leave(place, job.ticket, now);
        self.waiting.push_front(job);
    }

    fn leave(&mut self, place: usize, ticket: Ticket, now: Duration) -> usize {
        let place = &mut self.places[place];
        // Others may go on: the time so far counts for the pace now, as the work of this job does.
        place.busy += now.saturating_sub(place.since);
        place.since = now;
        place.running.remove(&ticket).unwrap_or(0)
    }

    /// Whether the device was lost.
    pub(super) fn is_lost(&self, place: usize) -> bool {
        self.places[place].lost.is_some()
    }

    pub(super) fn name(&self, place: usize) -> &str {
        &self.places[place].name
    }

    /// Takes a job that waits out of the schedule.
    #[must_use = "dropping a job runs the caller's code, which must not happen under the pool's lock"]
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> Option<Waiting<J>> {
        let at = self.waiting.iter().position(|job| job.ticket == ticket)?;
        self.waiting.remove(at)
    }

    /// Takes out every job that waits.
    #[must_use = "dropping a job runs the caller's code, which must not happen under the pool's lock"]
    pub(super) fn withdraw_all(&mut self) -> VecDeque<Waiting<J>> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether the job waits or is under way.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.waiting.iter().any(|job| job.ticket == ticket)
            || self.places.iter().any(|place| place.running.contains_key(&ticket))
    }

    /// The jobs that wait, and those that are under way.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.places.iter().map(|place| place.running.len()).sum())
    }

    pub(super) fn shares(&self, now: Duration) -> Vec<Share> {
        let share = |place: &Place| {
            let under_way =
                if place.running.is_empty() { Duration::ZERO } else { now.saturating_sub(place.since) };
            Share {
                device: place.name.clone(),
                jobs: place.finished,
                busy_seconds: (place.busy + under_way).as_secs_f64(),
                lost: place.lost.clone(),
            }
        };
        self.places.iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn schedule(budgets: &[usize], at_once: usize) -> Schedule<()> {
        let place = |(i, budget): (usize, &usize)| (format!("emulated:{i}"), *budget);
        Schedule::new(budgets.iter().enumerate().map(place), at_once)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Begins the next job and returns its place and ticket.
    fn begins(schedule: &mut Schedule<()>, now: Duration) -> Option<(usize, Ticket)> {
        (0..schedule.places.len()).find_map(|place| Some((place, schedule.begin(place, now)?.0.ticket)))
    }

    #[test]
    fn jobs_are_shared_out_before_a_device_gets_a_second_one() {
        let mut schedule = schedule(&[100 * MB; 3], 2);
        for _ in 0..7 {
            schedule.submit(10 * MB, ());
        }
        let places: Vec<_> =
            std::iter::from_fn(|| begins(&mut schedule, seconds(0))).map(|(place, _)| place).collect();
        assert_eq!(places, [0, 1, 2, 0, 1, 2]);
        assert_eq!(schedule.counts(), (1, 6));
    }

    /// However fast the first of two devices is, it does not do all jobs before the other has begun.
    #[test]
    fn a_device_that_has_had_no_job_gets_the_second() {
        let mut schedule = schedule(&[100 * MB; 2], 1);
        let tickets = [(); 3].map(|()| schedule.submit(10 * MB, ()));
        assert_eq!(begins(&mut schedule, seconds(0)), Some((0, tickets[0])));
        schedule.end(0, tickets[0], true, seconds(1));
        assert!(schedule.begin(0, seconds(1)).is_none(), "it is the other's");
        assert_eq!(begins(&mut schedule, seconds(1)), Some((1, tickets[1])));
        assert_eq!(begins(&mut schedule, seconds(1)), Some((0, tickets[2])));
    }

    #[test]
    fn a_large_job_weighs_more_than_several_small_ones() {
        let mut schedule = schedule(&[100 * MB; 2], 4);
        for bytes in [50 * MB, 10 * MB, 10 * MB, 10 * MB] {
            schedule.submit(bytes, ());
        }
        let places: Vec<_> =
            std::iter::from_fn(|| begins(&mut schedule, seconds(0))).map(|(place, _)| place).collect();
        assert_eq!(places, [0, 1, 1, 1]);
    }

    #[test]
    fn the_faster_device_gets_more() {
        let mut schedule = schedule(&[100 * MB; 2], 8);
        let tickets = [schedule.submit(10 * MB, ()), schedule.submit(10 * MB, ())];
        assert_eq!(begins(&mut schedule, seconds(0)), Some((0, tickets[0])));
        assert_eq!(begins(&mut schedule, seconds(0)), Some((1, tickets[1])));
        // Device 1 takes three times as long.
        schedule.end(0, tickets[0], true, seconds(1));
        schedule.end(1, tickets[1], true, seconds(3));
        for _ in 0..8 {
            schedule.submit(10 * MB, ());
        }
        let places: Vec<_> =
            std::iter::from_fn(|| begins(&mut schedule, seconds(3))).map(|(place, _)| place).collect();
        assert_eq!(places.iter().filter(|place| **place == 0).count(), 6, "{places:?}");
        let shares = schedule.shares(seconds(5));
        assert_eq!((shares[0].jobs, shares[0].busy_seconds), (1, 3.0));
        assert_eq!((shares[1].jobs, shares[1].busy_seconds), (1, 5.0));
    }

    #[test]
    fn a_job_that_ends_beside_another_does_not_make_its_device_look_fast() {
        let mut schedule = schedule(&[100 * MB; 2], 2);
        let tickets = [(); 4].map(|()| schedule.submit(10 * MB, ()));
        let places = [(); 4].map(|()| begins(&mut schedule, seconds(0)).unwrap().0);
        assert_eq!(places, [0, 1, 0, 1]);
        schedule.end(1, tickets[1], true, seconds(10));
        schedule.end(1, tickets[3], true, seconds(10));
        // One job goes on here, the other device is idle.
        schedule.end(0, tickets[0], true, seconds(10));
        let next = schedule.submit(10 * MB, ());
        assert_eq!(begins(&mut schedule, seconds(10)), Some((1, next)));
        let shares = schedule.shares(seconds(12));
        assert_eq!((shares[0].busy_seconds, shares[1].busy_seconds), (12.0, 12.0));
    }

    #[test]
    fn jobs_that_fail_at_once_do_not_make_a_device_look_fast() {
        let mut schedule = schedule(&[1000 * MB; 2], 8);
        let tickets = [(); 2].map(|()| schedule.submit(10 * MB, ()));
        for (place, ticket) in tickets.into_iter().enumerate() {
            assert_eq!(begins(&mut schedule, seconds(0)), Some((place, ticket)));
        }
        (0..2).for_each(|place| schedule.end(place, tickets[place], true, seconds(1)));
        for _ in 0..5 {
            let ticket = schedule.submit(100 * MB, ());
            assert_eq!(begins(&mut schedule, seconds(1)), Some((0, ticket)));
            schedule.end(0, ticket, false, seconds(1));
        }
        for place in [0, 1, 0, 1] {
            schedule.submit(10 * MB, ());
            assert_eq!(begins(&mut schedule, seconds(1)).map(|(place, _)| place), Some(place));
        }
    }

    #[test]
    fn jobs_wait_for_a_device_that_has_the_memory() {
        let mut schedule = schedule(&[10 * MB, 100 * MB], 2);
        let large = [schedule.submit(80 * MB, ()), schedule.submit(80 * MB, ())];
        schedule.submit(MB, ());
        assert_eq!(begins(&mut schedule, seconds(0)), Some((1, large[0])));
        // The second would fit on no other device, and those behind it do not overtake it.
        assert_eq!(begins(&mut schedule, seconds(0)), None);
        schedule.end(1, large[0], true, seconds(1));
        assert_eq!(begins(&mut schedule, seconds(1)), Some((1, large[1])));
        assert_eq!(begins(&mut schedule, seconds(1)).map(|(place, _)| place), Some(0));
        // One that fits nowhere begins alone, on the largest.
        let huge = schedule.submit(1 << 40, ());
        assert_eq!(begins(&mut schedule, seconds(1)), None);
        schedule.end(1, large[1], true, seconds(2));
        assert_eq!(begins(&mut schedule, seconds(2)), Some((1, huge)));
    }

    #[test]
    fn jobs_of_a_lost_device_go_elsewhere_and_end_on_the_last_one() {
        let mut schedule = schedule(&[100 * MB; 2], 1);
        let tickets = [schedule.submit(MB, ()), schedule.submit(MB, ()), schedule.submit(MB, ())];
        let (first, may_move) = schedule.begin(0, seconds(0)).unwrap();
        assert!(may_move);
        let (second, _) = schedule.begin(1, seconds(0)).unwrap();
        schedule.lose(0, "it fell off the bus".into());
        schedule.again(0, first, seconds(1));
        assert!(schedule.is_lost(0) && !schedule.is_lost(1));
        assert!(begins(&mut schedule, seconds(1)).is_none(), "the other is busy");
        schedule.end(1, second.ticket, true, seconds(2));
        // The job that was lost comes before the one that waited.
        let (again, may_move) = schedule.begin(1, seconds(2)).unwrap();
        assert_eq!((again.ticket, may_move), (tickets[0], true));
        schedule.lose(1, "too".into());
        schedule.again(1, again, seconds(3));
        let (again, may_move) = schedule.begin(1, seconds(3)).unwrap();
        assert_eq!((again.ticket, may_move), (tickets[0], false), "nobody is left");
        assert!(schedule.begin(0, seconds(3)).is_none());
        schedule.end(1, again.ticket, true, seconds(4));
        assert_eq!(schedule.begin(1, seconds(4)).unwrap().0.ticket, tickets[2]);
        let lost: Vec<_> = schedule.shares(seconds(4)).into_iter().map(|share| share.lost.unwrap()).collect();
        assert_eq!(lost, ["it fell off the bus", "too"]);
    }

    #[test]
    fn jobs_are_withdrawn_while_they_wait() {
        let mut schedule = schedule(&[MB], 1);
        let tickets = [schedule.submit(0, ()), schedule.submit(0, ())];
        schedule.begin(0, seconds(0)).unwrap();
        assert!(schedule.withdraw(tickets[0]).is_none() && schedule.has(tickets[0]));
        assert!(schedule.withdraw(tickets[1]).is_some() && !schedule.has(tickets[1]));
    }
}
