//! Fields of the messages, as definitions that type hashes are computed from.

/// Names and fields of all messages of this crate, and of the messages in them.
pub const DEFINITIONS: &[(&str, &str)] = &[
    ("audio_common_msgs/msg/AudioData", "uint8[] data"),
    ("audio_common_msgs/msg/AudioDataStamped", "std_msgs/Header header\nAudioData audio"),
    ("builtin_interfaces/msg/Time", "int32 sec\nuint32 nanosec"),
    ("geometry_msgs/msg/Point", "float64 x\nfloat64 y\nfloat64 z"),
    ("geometry_msgs/msg/Pose", "Point position\nQuaternion orientation"),
    ("geometry_msgs/msg/PoseStamped", "std_msgs/Header header\nPose pose"),
    ("geometry_msgs/msg/Quaternion", "float64 x 0\nfloat64 y 0\nfloat64 z 0\nfloat64 w 1"),
    ("geometry_msgs/msg/Transform", "Vector3 translation\nQuaternion rotation"),
    (
        "geometry_msgs/msg/TransformStamped",
        "std_msgs/Header header\nstring child_frame_id\nTransform transform",
    ),
    ("geometry_msgs/msg/Vector3", "float64 x\nfloat64 y\nfloat64 z"),
    (
        "sensor_msgs/msg/CameraInfo",
        "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\n\
         float64[] d\nfloat64[9] k\nfloat64[9] r\nfloat64[12] p\nuint32 binning_x\n\
         uint32 binning_y\nRegionOfInterest roi",
    ),
    ("sensor_msgs/msg/CompressedImage", "std_msgs/Header header\nstring format\nuint8[] data"),
    (
        "sensor_msgs/msg/Image",
        "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n\
         uint8 is_bigendian\nuint32 step\nuint8[] data",
    ),
    (
        "sensor_msgs/msg/Imu",
        "std_msgs/Header header\ngeometry_msgs/Quaternion orientation\n\
         float64[9] orientation_covariance\ngeometry_msgs/Vector3 angular_velocity\n\
         float64[9] angular_velocity_covariance\ngeometry_msgs/Vector3 linear_acceleration\n\
         float64[9] linear_acceleration_covariance",
    ),
    (
        "sensor_msgs/msg/PointCloud2",
        "std_msgs/Header header\nuint32 height\nuint32 width\nPointField[] fields\n\
         bool is_bigendian\nuint32 point_step\nuint32 row_step\nuint8[] data\nbool is_dense",
    ),
    ("sensor_msgs/msg/PointField", "string name\nuint32 offset\nuint8 datatype\nuint32 count"),
    (
        "sensor_msgs/msg/RegionOfInterest",
        "uint32 x_offset\nuint32 y_offset\nuint32 height\nuint32 width\nbool do_rectify",
    ),
    ("std_msgs/msg/Header", "builtin_interfaces/Time stamp\nstring frame_id"),
    ("std_msgs/msg/String", "string data"),
    ("tf2_msgs/msg/TFMessage", "geometry_msgs/TransformStamped[] transforms"),
];
