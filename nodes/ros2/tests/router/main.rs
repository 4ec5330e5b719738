//! Nodes against a zenoh router and a peer in this process.

#[cfg(test)]
mod peer;

use std::{net::TcpListener, time::Duration};

use afferent_graph::{OpenCx, Services, SessionStart, Timestamp};
use afferent_messages::{
    AudioBlock, Image, Imu, PixelFormat, PointCloud, Pose, SampleRate, Text, Transform, Transforms,
};
use afferent_nodes_ros2::{
    Sessions, cdr,
    key::{NO_TYPE_HASH, TopicKey},
    liveliness::{EndpointKind, Token},
    msg::{
        audio_common_msgs::AudioDataStamped, builtin_interfaces::Time, geometry_msgs::PoseStamped,
        sensor_msgs, std_msgs, tf2_msgs::TFMessage,
    },
};
use peer::{
    AT, ATTACHMENT, LIMIT, Router, check_both_ways, fixture, key, logged, next, open, publisher,
    send, subscriber, tokens, until, value, wait_for,
};
use zenoh::Wait;

#[test]
fn text_images_and_poses_pass_both_ways_with_the_bytes_of_rosbags() {
    let router = Router::start();
    let message = fixture("std_msgs/msg/String");
    check_both_ways::<std_msgs::String<'_>, Text>(
        &router,
        "text",
        [&[], &[]],
        &message,
        &Text::from("héllo"),
        PartialEq::eq,
    );
    let pixels: Vec<u8> = (0..22).collect();
    let mut image = Image::new(PixelFormat::Rgb8, 3, 2, 11, &pixels).unwrap();
    image.frame_id.push_str("camera");
    check_both_ways::<sensor_msgs::Image<'_>, Image>(
        &router,
        "image",
        [&[], &[]],
        &fixture("sensor_msgs/msg/Image"),
        &image,
        |a, b| a == b && a.bytes() == b.bytes(),
    );
    let pose = Pose {
        frame_id: "map".to_owned(),
        position_m: [1.0, 2.0, 3.0],
        orientation_xyzw: [0.0, 0.0, 1.0, 0.0],
    };
    check_both_ways::<PoseStamped, Pose>(
        &router,
        "pose",
        [&[], &[]],
        &fixture("geometry_msgs/msg/PoseStamped"),
        &pose,
        PartialEq::eq,
    );
}

#[test]
fn measurements_pass_both_ways_with_the_bytes_of_rosbags() {
    let router = Router::start();
    let imu =
        Imu { angular_velocity_rad_s: [0.25, -0.0, 3.0], acceleration_m_s2: [0.0, 0.0, 9.8125] };
    check_both_ways::<sensor_msgs::Imu, Imu>(
        &router,
        "imu",
        [&[], &[("frame_id", "imu_link")]],
        &fixture("sensor_msgs/msg/Imu"),
        &imu,
        PartialEq::eq,
    );
    let mut cloud = PointCloud { frame_id: "lidar".to_owned(), ..PointCloud::default() };
    let values = [1.0, -2.5, 1e-42, 0.1, f32::INFINITY, -0.0];
    cloud.reshape(1, 2).unwrap().copy_from_slice(&values);
    check_both_ways::<sensor_msgs::PointCloud2<'_>, PointCloud>(
        &router,
        "points",
        [&[], &[]],
        &fixture("sensor_msgs/msg/PointCloud2"),
        &cloud,
        |a, b| {
            let bytes = |cloud: &PointCloud| cloud.points.view().bytes().to_vec();
            (&a.frame_id, &a.fields, bytes(a)) == (&b.frame_id, &b.fields, bytes(b))
        },
    );
}

#[test]
fn audio_and_transforms_pass_both_ways_with_the_bytes_of_rosbags() {
    let router = Router::start();
    let mut block = AudioBlock::default();
    let samples = [0.0, 32_767.0 / 32_768.0, -1.0, 1234.0 / 32_768.0];
    block.reshape(SampleRate(48_000), 2, 2).unwrap().copy_from_slice(&samples);
    check_both_ways::<AudioDataStamped<'_>, AudioBlock>(
        &router,
        "audio",
        [&[("rate", "48000"), ("channels", "2")], &[("frame_id", "mic")]],
        &fixture("audio_common_msgs/msg/AudioDataStamped"),
        &block,
        |a, b| a.rate == b.rate && a.samples.view().bytes() == b.samples.view().bytes(),
    );
    let transform = |parent: &str, child: &str, x| Transform {
        at: AT,
        frame_id: parent.to_owned(),
        child_frame_id: child.to_owned(),
        translation_m: [x, -2.5, 1e300],
        rotation_xyzw: [0.5, -0.5, 0.5, -0.5],
    };
    let transforms = vec![transform("map", "odom", 1.0), transform("odometry", "b", 2.0)];
    check_both_ways::<TFMessage, Transforms>(
        &router,
        "tf",
        [&[], &[]],
        &fixture("tf2_msgs/msg/TFMessage"),
        &Transforms { transforms },
        PartialEq::eq,
    );
}

#[test]
fn compressed_images_and_large_images_pass_from_node_to_node() {
    let router = Router::start();
    let cx = router.cx("");
    let mut image = Image::default();
    let pixels = image.reshape(PixelFormat::Rgb8, 1920, 1080).unwrap();
    pixels.iter_mut().enumerate().for_each(|(at, pixel)| *pixel = (at / 7) as u8);
    for (kind, width) in [("image", 1920), ("compressed_image", 64)] {
        let topic = format!("{kind}/large");
        let frame = [("frame_id", "eye")];
        let mut source = router.open(&format!("ros2_{kind}_source"), &topic, &frame, &cx);
        let mut sink = router.open(&format!("ros2_{kind}_sink"), &topic, &[], &cx);
        let bytes = &image.bytes()[..width * 3 * 1080];
        let sent = Image::new(PixelFormat::Rgb8, width, 1080, width * 3, bytes).unwrap();
        for at in 0..3 {
            send(&mut sink, Timestamp(at), sent.clone()).unwrap();
            let (found_at, mut found) = value::<Image>(&mut source);
            let frame_id = std::mem::take(&mut found.frame_id);
            assert!(found == sent, "{kind}");
            assert_eq!((found_at, &*frame_id), (Timestamp(at), "eye"));
        }
    }
    let mut sink = router.open("ros2_compressed_image_sink", "/empty", &[], &cx);
    send(&mut sink, AT, Image::default()).unwrap();
}

#[test]
fn messages_of_faulty_publishers_are_dropped_counted_and_logged() {
    let router = Router::start();
    let (cx, peer) = (router.cx("text"), router.peer());
    let mut source = router.open("ros2_text_source", "/chatter", &[("depth", "100")], &cx);
    let key = key::<std_msgs::String<'_>>("/chatter");
    let good = publisher(&peer, key.publish());
    let text = fixture("std_msgs/msg/String");
    let put = |bytes: &[u8]| good.put(bytes).attachment(ATTACHMENT.to_bytes()).wait().unwrap();
    let lines = logged(|| {
        for _ in 0..5 {
            put(&text[..text.len() - 1]);
        }
        put(&[]);
        put(&[0xff; 64]);
        good.put(&*text).wait().unwrap();
        good.put(&*text).attachment(&ATTACHMENT.to_bytes()[1..]).wait().unwrap();
        let other = TopicKey { type_hash: "RIHS01_00".to_owned(), ..key.clone() };
        let other = publisher(&peer, other.publish());
        other.put(&*text).attachment(ATTACHMENT.to_bytes()).wait().unwrap();
        let humble = TopicKey { type_hash: NO_TYPE_HASH.to_owned(), ..key.clone() };
        let humble = publisher(&peer, humble.publish());
        humble.put(&*text).attachment(ATTACHMENT.to_bytes()).wait().unwrap();
        put(&text);
        for _ in 0..2 {
            assert_eq!(value::<Text>(&mut source).1, Text::from("héllo"));
        }
        let token =
            "@ros2_lv/7/a1/0/1/MP/%/%/other/%chatter/std_msgs::msg::dds_::Int8_/h/::,:,:,:,,";
        let _token = peer.liveliness().declare_token(token).wait().unwrap();
        until("a publisher of another type is seen", || {
            assert!(source.poll(Timestamp(5)).unwrap().0.is_empty());
            peer.liveliness().get(token).wait().unwrap().recv().is_ok()
        });
        assert!(source.poll(Timestamp(5)).unwrap().0.is_empty());
    });
    let expect = |part: &str, count: usize| {
        let found = lines.iter().filter(|line| line.contains(part)).count();
        assert_eq!(found, count, "{part}: {lines:#?}");
    };
    expect("/chatter: std_msgs/msg/String: ", 3);
    expect("it was dropped (4 times so far)", 1);
    expect("without a valid attachment was dropped; publish with `rmw_zenoh` (2 times so far)", 1);
    expect("another version of std_msgs/msg/String was dropped: its hash is RIHS01_00 (1 times", 1);
    expect("a publisher sends std_msgs/msg/Int8, which does not arrive", 1);
    // Two messages without an attachment are counted together or one after the other.
    assert!(matches!(lines.len(), 6 | 7), "{lines:#?}");
}

#[test]
fn a_slow_graph_gets_the_last_messages() {
    let router = Router::start();
    let (cx, peer) = (router.cx("text"), router.peer());
    let mut source = router.open("ros2_text_source", "chatter", &[("depth", "2")], &cx);
    let publisher = publisher(&peer, key::<std_msgs::String<'_>>("/chatter").publish());
    for number in 0..5 {
        let (data, mut bytes) = (format!("{number}"), Vec::new());
        cdr::encode(&std_msgs::String { data: data.into() }, &mut bytes).unwrap();
        publisher.put(bytes).attachment(ATTACHMENT.to_bytes()).wait().unwrap();
    }
    // A second topic on the same connection arrives after the first one.
    let mut last = router.open("ros2_text_source", "/last", &[], &cx);
    let publisher = peer::publisher(&peer, key::<std_msgs::String<'_>>("/last").publish());
    let text = fixture("std_msgs/msg/String");
    publisher.put(&*text).attachment(ATTACHMENT.to_bytes()).wait().unwrap();
    next(&mut last);
    let lines = logged(|| {
        let texts = [(); 2].map(|()| value::<Text>(&mut source).1.text);
        assert_eq!(texts, ["3", "4"]);
    });
    assert!(lines[0].contains("graph is slower than the topic"), "{lines:?}");
    assert!(lines[0].contains("(3 times so far)"), "{lines:?}");
}

#[test]
fn stamps_that_go_back_are_logged_and_stamps_of_zero_are_not_used() {
    let router = Router::start();
    let (cx, peer) = (router.cx("imu"), router.peer());
    let mut source = router.open("ros2_imu_source", "/imu", &[], &cx);
    let mut arrival = router.open("ros2_imu_source", "/imu", &[("time", "arrival")], &cx);
    let publisher = publisher(&peer, key::<sensor_msgs::Imu>("/imu").publish());
    let stamps = [(10, 5_000), (9, 0), (11, 0), (0, 0)];
    for (sec, nanosec) in stamps {
        let mut message = sensor_msgs::Imu::default();
        message.header.stamp = Time { sec, nanosec };
        let mut bytes = Vec::new();
        cdr::encode(&message, &mut bytes).unwrap();
        publisher.put(bytes).attachment(ATTACHMENT.to_bytes()).wait().unwrap();
    }
    let lines = logged(|| {
        let times = stamps.map(|_| next(&mut source).header.at.0);
        assert_eq!(times, [10_000_004_000, 8_999_999_000, 10_999_999_000, 250]);
        assert_eq!(stamps.map(|_| next(&mut arrival).header.at.0), [5; 4]);
    });
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("/imu: a stamp goes back by 1.000005s"), "{lines:?}");
}

#[test]
fn a_missing_router_is_an_error_that_names_its_address() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("tcp/127.0.0.1:{port}");
    let services = Services::default().with(Sessions::default());
    let cx = OpenCx { services, ..OpenCx::default() };
    for (kind, wait, within) in
        [("ros2_text_source", "0ms", ""), ("ros2_text_sink", "200ms", " within 200ms")]
    {
        let params = [("topic", "a"), ("router", &*address), ("wait", wait)];
        let error = open(kind, &params, &cx).err().unwrap().to_string();
        let expected =
            format!("device \"{address}\": no zenoh router answers{within}; start one with");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn nodes_need_sessions_and_the_real_clock() {
    let error = open("ros2_text_source", &[("topic", "a")], &OpenCx::default()).err().unwrap();
    assert!(error.to_string().contains("needs the service ROS 2 sessions"), "{error}");
    for kind in ["ros2_text_source", "ros2_text_sink"] {
        let cx = OpenCx::with_service(SessionStart::VIRTUAL);
        let error = open(kind, &[("topic", "a")], &cx).err().unwrap().to_string();
        assert!(error.contains("needs the real clock"), "{error}");
    }
}

#[test]
fn peers_discover_nodes_and_topics() {
    let router = Router::start();
    let (cx, peer) = (router.cx("agent.text"), router.peer());
    let qos = [("qos", "best_effort"), ("depth", "5")];
    let source = router.open("ros2_text_source", "/in", &qos, &cx);
    let sink = router.open("ros2_text_sink", "/out", &[], &cx);
    until("four tokens", || tokens(&peer).len() == 4);
    let tokens_now = tokens(&peer);
    let nodes: Vec<_> = tokens_now
        .iter()
        .filter_map(|token| if let Token::Node(node) = token { Some(node) } else { None })
        .collect();
    assert_eq!(nodes.len(), 2);
    assert!(nodes.iter().all(|node| node.name == "agent_text"), "{nodes:?}");
    assert_eq!(nodes[0].session, nodes[1].session, "one session for both nodes");
    assert_ne!(nodes[0].node, nodes[1].node);
    for (topic, kind) in [("/in", EndpointKind::Subscriber), ("/out", EndpointKind::Publisher)] {
        let found = tokens_now.iter().any(|token| {
            matches!(token, Token::Endpoint(endpoint) if endpoint.topic == topic
                && endpoint.kind == kind
                && endpoint.message == "std_msgs/msg/String"
                && nodes.contains(&&endpoint.node))
        });
        assert!(found, "{topic}: {tokens_now:?}");
    }
    drop(source);
    until("the tokens of the source end", || tokens(&peer).len() == 2);
    drop(sink);
    until("the tokens of the sink end", || tokens(&peer).is_empty());
}

#[test]
fn the_end_of_a_graph_waits_for_its_messages() {
    let router = Router::start();
    let (cx, peer) = (router.cx("text"), router.peer());
    let key = key::<std_msgs::String<'_>>("/chatter");
    let messages = subscriber(&peer, key.subscribe());
    wait_for(&peer);
    let mut sink = router.open("ros2_text_sink", "/chatter", &[("depth", "100")], &cx);
    for number in 0..100 {
        send(&mut sink, AT, Text::from(&*number.to_string())).unwrap();
    }
    drop(sink);
    for number in 0..100 {
        let (_, bytes, _) = messages.recv_timeout(LIMIT).unwrap();
        let text: std_msgs::String<'_> = cdr::decode(&bytes).unwrap();
        assert_eq!(text.data, number.to_string());
    }
}

#[test]
fn nodes_connect_again_to_a_new_router() {
    let router = Router::start();
    let cx = router.cx("text");
    let mut source = router.open("ros2_text_source", "/in", &[], &cx);
    let mut sink = router.open("ros2_text_sink", "/out", &[], &cx);
    let address = router.address.clone();
    router.session.close().wait().unwrap();
    drop(router);
    send(&mut sink, AT, Text::from("lost")).unwrap();
    let router = Router::at(address);
    let peer = router.peer();
    let messages = subscriber(&peer, key::<std_msgs::String<'_>>("/out").subscribe());
    until("the sink is connected again", || {
        send(&mut sink, AT, Text::from("again")).unwrap();
        messages.recv_timeout(Duration::from_millis(50)).is_ok()
    });
    let publisher = publisher(&peer, key::<std_msgs::String<'_>>("/in").publish());
    let text = fixture("std_msgs/msg/String");
    publisher.put(&*text).attachment(ATTACHMENT.to_bytes()).wait().unwrap();
    assert_eq!(value::<Text>(&mut source).1, Text::from("héllo"));
    until("the tokens are announced again", || tokens(&peer).len() == 4);
}
