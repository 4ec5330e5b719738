//! Images on the GPU.

#[cfg(feature = "gpu")]
use afferent_gpu::Gpu;
use afferent_graph::{Cx, Node, NodeError, OpenCx, Port, ports};
use afferent_messages::Image;

/// Copies images to the GPU, where the nodes after it use them without another copy.
///
/// [`Depth`](crate::Depth) and [`Overlay`](crate::Overlay) work on the GPU then, and the results stay
/// there. Every other node, a recording and another process read an image back when they look at it.
///
/// Needs a program with the feature `vulkan` and a GPU; `afferent doctor` shows it.
///
/// Latency: none.
///
/// ```
/// use afferent_graph::{Node, OpenCx};
/// use afferent_nodes_vision::GpuImage;
///
/// // Without a service for the GPU, the error says what is missing.
/// let error = GpuImage::open((), &OpenCx::default()).err().unwrap();
/// assert!(error.to_string().contains("GPU") || error.to_string().contains("Gpu"));
/// ```
pub struct GpuImage {
    #[cfg(feature = "gpu")]
    gpu: Gpu,
}

ports! {
    impl GpuImage {
        /// Images of any size and format.
        in IMAGES: Image;
        /// The same images on the GPU.
        out ON_GPU = "images": Image, in_step;
    }
}

fn failed(reason: String) -> NodeError {
    NodeError::Device { name: "GPU".to_owned(), reason }
}

impl Node for GpuImage {
    type Params = ();

    const NAME: &'static str = "gpu_image";
    const SUMMARY: &'static str =
        "Copies images to the GPU, where the nodes after it use them without another copy.";
    const PORTS: &'static [Port] = Self::PORTS;
    const LATENCY: &'static str = "none";

    #[cfg(feature = "gpu")]
    fn open((): (), cx: &OpenCx) -> Result<Self, NodeError> {
        let gpu = cx.services.need::<Gpu>()?.clone();
        gpu.device().map_err(|error| failed(error.to_string()))?;
        Ok(Self { gpu })
    }

    #[cfg(not(feature = "gpu"))]
    fn open((): (), _: &OpenCx) -> Result<Self, NodeError> {
        let reason = "this program was built without the GPU; build it with the feature `vulkan`";
        Err(failed(reason.to_owned()))
    }

    #[cfg(feature = "gpu")]
    fn process(&mut self, cx: &mut Cx<'_>) -> Result<(), NodeError> {
        let Some(image) = cx.get(Self::IMAGES).filter(|image| image.width() > 0) else {
            return Ok(());
        };
        let pixels = crate::gpu::upload(&self.gpu, image).map_err(failed)?;
        let mut copy = cx.loan(Self::ON_GPU);
        copy.set_pixels(image.format(), image.width(), image.height(), pixels)?;
        copy.derive_from(image, &afferent_messages::Affine::IDENTITY);
        copy.colorimetry = image.colorimetry;
        cx.send(Self::ON_GPU, copy);
        Ok(())
    }

    #[cfg(not(feature = "gpu"))]
    fn process(&mut self, _: &mut Cx<'_>) -> Result<(), NodeError> {
        Ok(())
    }
}
