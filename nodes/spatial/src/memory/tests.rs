//! Tests of the scene memory: association, forgetting, maps and answers.

use std::time::Duration;

use afferent_messages::{
    Image, PixelFormat,
    vision::{self, Depth, Detection3d, PlaneAlignment, PlaneLabel},
};

use super::*;
use crate::camera_view::{CameraView, tests as view_tests};

const SECOND: u64 = 1_000_000_000;

fn detection(label: &str, position_m: [f64; 3]) -> Detection3d {
    Detection3d {
        label: label.into(),
        score: 0.8,
        position_m,
        covariance_m2: [[0.04, 0.0, 0.0], [0.0, 0.04, 0.0], [0.0, 0.0, 0.04]],
        size_m: [0.3; 3],
    }
}

fn memory() -> SceneMemory {
    SceneMemory::new(ObserveSettings::default(), 0)
}

/// Sees the objects at four times within a second, from `start_s`.
fn see(memory: &mut SceneMemory, start_s: u64, found: &[Detection3d]) {
    for step in 0..4 {
        memory.observe(start_s * SECOND + step * SECOND / 5, found, None);
    }
}

fn classes(memory: &mut SceneMemory) -> Vec<String> {
    let records = memory.records();
    records.iter().map(|record| record.label.as_ref().unwrap().class.to_string()).collect()
}

/// A viewer at the origin, 1.5 m high, that looks along x.
fn viewer() -> Viewer {
    let translation_m = [0.0, 0.0, 1.5];
    Viewer { world_from_camera: Rigid { translation_m, rotation_xyzw: [-0.5, 0.5, -0.5, 0.5] } }
}

#[test]
fn objects_count_after_three_sightings_within_two_seconds() {
    let mut memory = memory();
    let cup = [detection("cup", [1.0, 0.0, 1.0])];
    for at in [0, 1, 2] {
        assert!(memory.is_empty());
        memory.observe(at * SECOND, &cup, None);
    }
    assert_eq!(classes(&mut memory), ["cup"]);
    let slow = [detection("ball", [5.0, 0.0, 1.0])];
    for at in [10, 12, 15, 17, 20] {
        memory.observe(at * SECOND, &slow, None);
        memory.observe(at * SECOND + 1, &[], None);
    }
    assert_eq!(classes(&mut memory), ["cup"]);
}

#[test]
fn positions_are_filtered_by_their_covariance() {
    let mut random = fastrand::Rng::with_seed(4);
    let mut memory = memory();
    let truth = [2.0, -1.0, 0.8];
    for step in 0..60 {
        // Each view is exact across a ray, which turns, and off by up to half a meter along it.
        let (sin, cos) = (step as f64 * 0.05).sin_cos();
        let along = random.f64() - 0.5;
        let mut cup = detection("cup", [truth[0] + cos * along, truth[1] + sin * along, truth[2]]);
        let (far, near) = (0.25, 0.0009);
        cup.covariance_m2 = [
            [cos * cos * far + sin * sin * near, cos * sin * (far - near), 0.0],
            [cos * sin * (far - near), sin * sin * far + cos * cos * near, 0.0],
            [0.0, 0.0, near],
        ];
        memory.observe(step * SECOND / 5, &[cup], None);
    }
    let records = memory.records();
    assert_eq!(records.len(), 1);
    let error = DVec3::from_array(records[0].position.m).distance(DVec3::from_array(truth));
    assert!(error < 0.03, "{error} m");
    assert_eq!(records[0].seen.count, 60);
}

#[test]
fn objects_of_a_class_are_told_apart_by_distance() {
    let mut memory = memory();
    let chairs = [0.0, 1.2, 2.4].map(|x| detection("chair", [x, 0.0, 0.5]));
    see(&mut memory, 0, &chairs);
    assert_eq!(classes(&mut memory), ["chair"; 3]);
    // In another order, and seen from elsewhere.
    see(&mut memory, 60, &[chairs[2].clone(), chairs[0].clone()]);
    assert_eq!(classes(&mut memory), ["chair"; 3]);
    let counts: Vec<u32> = memory.records().iter().map(|record| record.seen.count).collect();
    assert_eq!(counts, [8, 4, 8]);
    // A mistake of the detector adds no object where one is.
    see(&mut memory, 90, &[detection("couch", [1.25, 0.05, 0.5])]);
    assert_eq!(classes(&mut memory), ["chair"; 3]);
}

/// Looks from (1, 2, 1.5) along x, with a depth of `depth_m` everywhere, without finding anything.
fn look_in_vain(memory: &mut SceneMemory, times: u64, depth_m: f32) {
    let depth: Depth = view_tests::depth(|_, _| depth_m);
    let view = CameraView::new(&view_tests::pose(), &depth).unwrap();
    for step in 0..times {
        memory.observe((100 + step) * SECOND, &[], Some(&view));
    }
}

#[test]
fn objects_are_forgotten_if_they_must_be_visible_and_are_not() {
    let seen = |position| {
        let mut memory = memory();
        see(&mut memory, 0, &[detection("cup", position)]);
        memory
    };
    let ahead = [3.0, 2.0, 1.5];
    let check = |position, depth_m, times, is_kept: bool| {
        let mut memory = seen(position);
        look_in_vain(&mut memory, times, depth_m);
        assert_eq!(memory.len() == 1, is_kept, "{position:?} {depth_m}");
    };
    check(ahead, 4.0, 3, true);
    check(ahead, 4.0, 60, false);
    check(ahead, 1.0, 60, true); // something is before it
    check([3.0, 5.0, 1.5], 4.0, 60, true); // beside the image
    check([-1.0, 2.0, 1.5], 4.0, 60, true); // behind the camera
    check([7.0, 2.0, 1.5], 9.0, 60, true); // too far
    // A named object stays.
    let mut memory = seen(ahead);
    assert!(memory.set_name(1, "my mug"));
    look_in_vain(&mut memory, 60, 4.0);
    assert_eq!(memory.len(), 1);
}

#[test]
fn two_objects_that_turn_out_to_be_one_are_joined() {
    let mut memory = memory();
    let far = Detection3d {
        covariance_m2: [[1e-3, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, 1e-3]],
        ..detection("table", [0.0, 0.0, 0.5])
    };
    see(&mut memory, 0, std::slice::from_ref(&far));
    see(&mut memory, 10, &[Detection3d { position_m: [0.4, 0.0, 0.5], ..far.clone() }]);
    assert_eq!(memory.len(), 2);
    for step in 0..40 {
        let toward = 0.4 - 0.01 * step as f64;
        let closer = Detection3d { position_m: [toward, 0.0, 0.5], ..far.clone() };
        memory.observe((20 + step) * SECOND, &[closer], None);
    }
    let records = memory.records();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].seen.first_ns, 0, "since the first sighting of both");
}

#[test]
fn the_memory_is_bounded_by_number_and_age() {
    let settings = ObserveSettings {
        confirm_count: 1,
        max_objects: 3,
        max_age: Duration::from_secs(100),
        ..ObserveSettings::default()
    };
    let mut memory = SceneMemory::new(settings, 0);
    for at in 0..6 {
        memory.observe(at * SECOND, &[detection("ball", [at as f64 * 3.0, 0.0, 0.0])], None);
    }
    memory.observe(7 * SECOND, &[], None);
    let ids: Vec<u64> = memory.records().iter().map(|record| record.id).collect();
    assert_eq!(ids, [4, 5, 6], "those that were seen last");
    memory.set_name(5, "mine");
    memory.observe(200 * SECOND, &[], None);
    let ids: Vec<u64> = memory.records().iter().map(|record| record.id).collect();
    assert_eq!(ids, [5], "names last");
}

#[test]
fn a_session_finds_the_map_of_an_earlier_one_by_an_anchor() {
    let door = Rigid { translation_m: [1.0, 0.0, 1.0], ..Rigid::IDENTITY };
    let mut first = SceneMemory::new(ObserveSettings::default(), 100);
    see(&mut first, 100, &[detection("cup", [3.0, 0.0, 1.0])]);
    assert!(!first.observe_anchor("door", &door, 101 * SECOND));
    let kept = first.snapshot();

    let mut second = SceneMemory::new(ObserveSettings::default(), 200);
    second.restore(kept);
    // The world of this session is turned by 90° and moved: the door is at (5, 5, 1) and looks along y.
    let half = 0.5_f64.sqrt();
    let seen = Rigid { translation_m: [5.0, 5.0, 1.0], rotation_xyzw: [0.0, 0.0, half, half] };
    let ball = Detection3d { size_m: [0.2, 0.4, 0.3], ..detection("ball", [5.0, 6.0, 1.0]) };
    see(&mut second, 200, &[ball]);
    let answer = |memory: &mut SceneMemory, thing: &str| {
        let found = memory.find(thing, Some(&viewer()))[0];
        memory.answer(found.id, Some(&viewer()), 203 * SECOND).unwrap()
    };
    let cup = answer(&mut second, "cup");
    assert!(cup.is_stale && cup.distance_m.is_none());
    let stale = "I saw the cup a minute ago, but I do not know where that is from here.";
    assert_eq!(cup.phrase(), stale);
    assert!(second.observe_anchor("door", &seen, 202 * SECOND));
    let cup = answer(&mut second, "cup");
    assert!(!cup.is_stale);
    // Two meters behind the door: at (5, 7) in this session.
    assert!((cup.distance_m.unwrap() - (25.0_f64 + 49.0).sqrt()).abs() < 1e-6, "{cup:?}");
    // The ball of this session is in the same map now: one meter behind the door.
    let ball = answer(&mut second, "ball");
    let expected = DVec3::new(2.0, 0.0, 1.0);
    assert!(DVec3::from_array(ball.record.position.m).distance(expected) < 0.05, "{ball:?}");
    assert_eq!((ball.record.provenance, second.map()), (Provenance { map: 100 }, 100));
    assert_eq!(
        ball.record.bounds.unwrap().size_m.map(|size| (size * 10.0).round()),
        [4.0, 2.0, 3.0]
    );
    // And what comes in is matched there.
    see(&mut second, 210, &[detection("cup", [5.0, 7.0, 1.0])]);
    assert_eq!(second.find("cup", None).len(), 1);
}

#[test]
fn answers_say_where_things_are() {
    let mut memory = memory();
    let table = Detection3d { size_m: [1.0, 1.0, 0.7], ..detection("table", [2.0, 2.0, 0.35]) };
    let cup = Detection3d { size_m: [0.1; 3], ..detection("cup", [2.1, 1.8, 0.8]) };
    see(
        &mut memory,
        0,
        &[table, cup, detection("chair", [0.0, -4.0, 0.5]), detection("chair", [-3.0, 0.0, 0.5])],
    );
    let mut say = |thing: &str, now_s: u64, viewer: Option<Viewer>| {
        let found = memory.find(thing, viewer.as_ref());
        let answer =
            found.first().and_then(|best| memory.answer(best.id, viewer.as_ref(), now_s * SECOND));
        answer.map_or_else(|| "nothing".to_owned(), |answer| answer.phrase())
    };
    let here = Some(viewer());
    let cup = "The cup is on the table, about three meters ahead on the left.";
    assert_eq!(say("my mug", 1, here), cup);
    assert_eq!(say("Cups", 1, here), cup);
    assert_eq!(say("the cup", 400, here), format!("{cup} I saw it six minutes ago."));
    assert_eq!(say("the cup", 1, None), "The cup is on the table.");
    assert_eq!(say("chair", 1, here), "The chair is about three meters behind you.");
    assert_eq!(say("table", 1, None), "I saw the table just now, but I do not know where I am.");
    assert_eq!(say("piano", 1, here), "nothing");
}

#[test]
fn a_session_finds_the_map_of_an_earlier_one_by_keyframes() {
    let vector = |keyframe: usize, noise: f32| -> Vec<f32> {
        (0..8)
            .map(|at| if at == keyframe { 1.0 } else { noise * (at as f32 - 3.5) / 3.5 })
            .collect()
    };
    let pose = |x: f64| Rigid { translation_m: [x, 0.0, 1.5], ..viewer().world_from_camera };
    let mut first = SceneMemory::new(ObserveSettings::default(), 100);
    see(&mut first, 100, &[detection("cup", [3.0, 0.0, 1.0])]);
    for keyframe in 0..4 {
        let pose = pose(keyframe as f64 * 2.0);
        assert!(!first.observe_keyframe(
            101 * SECOND,
            ("clip", &vector(keyframe, 0.1)),
            &pose,
            0.9
        ));
    }
    // From nearby it is the same keyframe.
    first.observe_keyframe(102 * SECOND, ("clip", &vector(0, 0.2)), &pose(0.3), 0.9);
    assert_eq!(first.len(), 5);

    // A world that is turned by 90° and moved.
    let half = 0.5_f64.sqrt();
    let moved = Rigid { translation_m: [5.0, 5.0, 0.0], rotation_xyzw: [0.0, 0.0, half, half] };
    let mut second = SceneMemory::new(ObserveSettings::default(), 200);
    second.restore(first.snapshot());
    let mut look = |keyframe: usize, space: &str, noise: f32| {
        let pose = moved.then(&pose(keyframe as f64 * 2.0));
        second.observe_keyframe(200 * SECOND, (space, &vector(keyframe, noise)), &pose, 0.9)
    };
    assert!(!look(1, "other", 0.1) && !look(1, "clip", 3.0), "neither is a keyframe of the map");
    assert!(!look(1, "clip", 0.1) && !look(2, "clip", 0.1));
    // Two images whose transforms do not agree are not enough.
    assert!(look(3, "clip", 0.1));
    assert_eq!(second.map(), 100);
    // The frame of the input poses, in the map.
    let back = second.map_from_world().then(&moved);
    assert!(DVec3::from_array(back.translation_m).length() < 1e-9, "{back:?}");
}

#[test]
fn keyframes_that_disagree_are_no_map() {
    let mut first = SceneMemory::new(ObserveSettings::default(), 100);
    let pose = |x: f64| Rigid { translation_m: [x, 0.0, 1.5], ..viewer().world_from_camera };
    for keyframe in 0..3 {
        let vector = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]][keyframe];
        first.observe_keyframe(0, ("clip", &vector), &pose(keyframe as f64 * 5.0), 0.9);
    }
    let mut second = SceneMemory::new(ObserveSettings::default(), 200);
    second.restore(first.snapshot());
    // All images come from one pose.
    for step in 0..12 {
        let vector = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]][step % 3];
        assert!(!second.observe_keyframe(SECOND, ("clip", &vector), &pose(0.0), 0.9));
    }
}

fn plane(label: PlaneLabel, center_m: [f64; 3], size_m: [f32; 2]) -> vision::Plane {
    vision::Plane { label, center_m, size_m, ..vision::Plane::default() }
}

#[test]
fn planes_grow_and_join() {
    let mut memory = memory();
    let mut see = |at: u64, planes: &[vision::Plane]| {
        for step in 0..4 {
            memory.observe_planes(at * SECOND + step * SECOND / 5, planes);
        }
        let records = memory.records();
        let plane = |record: &EntityRecord| {
            let (plane, size) = (record.plane.unwrap(), record.plane.unwrap().size_m);
            (plane.label, record.position.m.map(|value| (value * 100.0).round() / 100.0), size)
        };
        records.iter().map(plane).collect::<Vec<_>>()
    };
    let floor = |x: f64, z: f64| plane(PlaneLabel::Floor, [x, 0.0, z], [2.0, 2.0]);
    // Two parts with a gap of three meters.
    let parts = see(0, &[floor(0.0, 0.0), floor(5.0, 0.0)]);
    assert_eq!(parts.len(), 2, "{parts:?}");
    // A part between the two joins them; the height is the mean.
    let middle = plane(PlaneLabel::Floor, [2.5, 0.0, 0.0], [3.0, 2.0]);
    let joined = see(10, &[middle]);
    assert_eq!(joined, [(PlaneLabel::Floor, [2.5, 0.0, 0.0], [7.0, 2.0])]);
    let half = 0.5_f64.sqrt();
    let wall = |orientation_xyzw: [f64; 4]| vision::Plane {
        alignment: PlaneAlignment::Vertical,
        orientation_xyzw,
        ..plane(PlaneLabel::Wall, [0.0, 1.0, 1.0], [3.0, 2.0])
    };
    // Both sides of a thin wall, and a table above the floor.
    let (front, back) = (wall([half, 0.0, 0.0, half]), wall([-half, 0.0, 0.0, half]));
    let table = plane(PlaneLabel::Table, [1.0, 0.0, 0.7], [1.0, 0.6]);
    assert_eq!(see(20, &[front, back, table]).len(), 4);
    let noise = vision::Plane { size_m: [f32::NAN; 2], ..floor(0.0, 0.0) };
    assert_eq!(see(30, &[noise]).len(), 4);
    let cup = Detection3d { size_m: [0.1; 3], ..detection("cup", [1.2, 0.1, 0.78]) };
    let ball = Detection3d { size_m: [0.2; 3], ..detection("ball", [4.0, 0.5, 0.1]) };
    for step in 0..4 {
        memory.observe(40 * SECOND + step, &[cup.clone(), ball.clone()], None);
    }
    let mut on = |thing: &str| {
        let found = memory.find(thing, None)[0];
        memory.answer(found.id, None, 41 * SECOND).unwrap().on
    };
    assert_eq!((on("cup").as_deref(), on("ball").as_deref()), (Some("table"), Some("floor")));
}

#[test]
fn a_plane_seen_once_is_forgotten_and_others_age() {
    let mut memory = memory();
    let floor = plane(PlaneLabel::Floor, [0.0; 3], [2.0, 2.0]);
    memory.observe_planes(0, &[floor]);
    memory.observe_planes(10 * SECOND, &[]);
    assert!(memory.entities.is_empty());
    for at in 20..24 {
        memory.observe_planes(at * SECOND, &[floor]);
    }
    assert_eq!(memory.len(), 1);
    memory.observe_planes(100 * 24 * 3600 * SECOND, &[]);
    assert_eq!(memory.len(), 0);
}

#[test]
fn the_last_image_of_an_object_is_kept() {
    let mut memory = memory();
    let depth = view_tests::depth(|_, _| 2.0);
    let mut image = Image::default();
    let pixels = image.reshape(PixelFormat::Rgb8, 80, 60).unwrap();
    for (index, pixel) in pixels.chunks_exact_mut(3).enumerate() {
        // Red in the middle.
        let is_red = (35..45).contains(&(index % 80)) && (25..35).contains(&(index / 80));
        pixel.copy_from_slice(if is_red { &[255, 0, 0] } else { &[0, 0, 255] });
    }
    let view = CameraView::new(&view_tests::pose(), &depth).unwrap();
    // 2 m ahead of the camera: 0.2 m are 5 pixels.
    let cup = Detection3d { size_m: [0.2; 3], ..detection("cup", [3.0, 2.0, 1.5]) };
    for step in 0..4 {
        let seen = memory.observe(step * SECOND / 5, std::slice::from_ref(&cup), Some(&view));
        memory.keep_images(step * SECOND / 5, &seen, &view, &image);
    }
    let id = memory.find("cup", None)[0].id;
    let mut part = Image::default();
    part.read_file(&memory.image(id).unwrap()).unwrap();
    assert_eq!((part.width(), part.height()), (7, 7));
    assert!(part.bytes().chunks_exact(3).all(|pixel| pixel == [255, 0, 0]), "{:?}", part.bytes());
    assert_eq!(memory.records()[0].image.as_ref().map(|image| image.at_ns), Some(0));
}

#[test]
fn detections_without_a_position_or_a_variance_are_ignored() {
    let mut memory = memory();
    let good = detection("cup", [1.0, 0.0, 1.0]);
    let mut bad = vec![good.clone(); 4];
    bad[0].position_m[1] = f64::NAN;
    bad[1].covariance_m2 = [[0.0; 3]; 3];
    bad[2].score = f32::NAN;
    bad[3].size_m[0] = f32::INFINITY;
    see(&mut memory, 0, &bad);
    assert!(memory.is_empty());
    see(&mut memory, 10, &[good]);
    // An indefinite covariance matches nothing.
    let mut indefinite = detection("cup", [1.2, 0.0, 1.0]);
    indefinite.covariance_m2 = [[0.01, 9.0, 0.0], [9.0, 0.01, 0.0], [0.0, 0.0, 0.01]];
    see(&mut memory, 20, &[indefinite]);
    assert!(memory.records().iter().all(|record| record.position.m.iter().all(|m| m.is_finite())));
}

#[test]
fn names_of_classes_and_their_plurals_are_found() {
    let mut memory = memory();
    let classes = ["dining table", "cell phone", "t-shirt", "box", "glasses"];
    let found: Vec<_> = classes
        .iter()
        .enumerate()
        .map(|(at, class)| detection(class, [at as f64 * 2.0, 0.0, 0.0]))
        .collect();
    see(&mut memory, 0, &found);
    for (asked, class) in [
        ("my desk", "dining table"),
        ("the table", "dining table"),
        ("phones", "cell phone"),
        ("mobile", "cell phone"),
        ("t-shirts", "t-shirt"),
        ("boxes", "box"),
        ("glasses", "glasses"),
    ] {
        let found = memory.find(asked, None);
        let class_of = |id| memory.get(id).unwrap().label.unwrap().class.to_string();
        assert_eq!(
            found.iter().map(|found| found.id).map(class_of).collect::<Vec<_>>(),
            [class],
            "{asked}"
        );
    }
    memory.remember("home", [0.0; 3], 0);
    assert_eq!(memory.find("the", None), []);
}

#[test]
fn names_come_before_classes() {
    let mut memory = memory();
    see(&mut memory, 0, &[detection("cup", [1.0, 0.0, 1.0]), detection("cup", [2.0, 2.0, 1.0])]);
    assert_eq!(memory.find("cup", Some(&viewer())).len(), 2);
    assert!(memory.set_name(2, "My Cup"));
    let found: Vec<u64> =
        memory.find("cup", Some(&viewer())).iter().map(|found| found.id).collect();
    assert_eq!(found, [2]);
    assert!(memory.forget(2));
    assert!(!memory.forget(2));
    assert_eq!(memory.find("cup", None)[0].id, 1);
    let entrance = memory.remember("the entrance", [9.0, 9.0, 0.0], SECOND);
    assert_eq!(memory.find("entrance", None)[0].id, entrance);
}

#[test]
fn changes_rebuild_the_memory() {
    let mut memory = memory();
    let mut copy = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(9);
    for step in 0..300u64 {
        let found: Vec<_> = (0..random.usize(0..4))
            .map(|_| {
                let position = [f64::from(random.u8(0..4)) * 2.0, random.f64() * 0.2, 0.5];
                detection(["cup", "ball"][random.usize(0..2)], position)
            })
            .collect();
        memory.observe(step * SECOND / 4, &found, None);
        if random.u8(0..20) == 0 {
            memory.forget(random.u64(0..20));
        }
        if random.u8(0..3) > 0 {
            for change in memory.take_changes() {
                match change {
                    Change::Put(record) => drop(copy.insert(record.id, *record)),
                    Change::Remove(id) => drop(copy.remove(&id)),
                }
            }
            let rebuilt: Vec<_> = copy.values().cloned().collect();
            assert_eq!(rebuilt, memory.records(), "step {step}");
        }
    }
}
