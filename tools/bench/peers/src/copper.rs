//! copper: a source, ten tasks and a sink in one cycle, without logging.

use std::{
    hint::black_box,
    sync::{Arc, Mutex},
    time::Instant,
};

use cu29::prelude::*;

#[derive(Reflect)]
struct Source {
    next: u64,
}

impl Freezable for Source {}

impl CuSrcTask for Source {
    type Resources<'r> = ();
    type Output<'m> = output_msg!(u64);

    fn new(_: Option<&ComponentConfig>, _: ()) -> CuResult<Self> {
        Ok(Self { next: 0 })
    }

    fn process(&mut self, _: &CuContext, output: &mut Self::Output<'_>) -> CuResult<()> {
        self.next += 1;
        output.set_payload(self.next);
        Ok(())
    }
}

#[derive(Reflect)]
struct Pass;

impl Freezable for Pass {}

impl CuTask for Pass {
    type Resources<'r> = ();
    type Input<'m> = input_msg!(u64);
    type Output<'m> = output_msg!(u64);

    fn new(_: Option<&ComponentConfig>, _: ()) -> CuResult<Self> {
        Ok(Self)
    }

    fn process(
        &mut self,
        _: &CuContext,
        input: &Self::Input<'_>,
        output: &mut Self::Output<'_>,
    ) -> CuResult<()> {
        if let Some(number) = input.payload() {
            output.set_payload(number + 1);
        }
        Ok(())
    }
}

#[derive(Reflect)]
struct Sink;

impl Freezable for Sink {}

impl CuSinkTask for Sink {
    type Resources<'r> = ();
    type Input<'m> = input_msg!(u64);

    fn new(_: Option<&ComponentConfig>, _: ()) -> CuResult<Self> {
        Ok(Self)
    }

    fn process(&mut self, _: &CuContext, input: &Self::Input<'_>) -> CuResult<()> {
        black_box(input.payload());
        Ok(())
    }
}

#[copper_runtime(config = "copper.ron")]
struct App {}

/// Time of each batch of cycles in nanoseconds, after one warm-up batch.
pub(crate) fn batches(batches: usize, cycles: usize) -> CuResult<Vec<u64>> {
    let folder = tempfile::tempdir().map_err(|error| CuError::new_with_cause("folder", error))?;
    let UnifiedLogger::Write(logger) = UnifiedLoggerBuilder::new()
        .file_base_name(&folder.path().join("log.copper"))
        .preallocated_size(1 << 20)
        .write(true)
        .create(true)
        .build()
        .map_err(|error| CuError::new_with_cause("log", error))?
    else {
        return Err(CuError::from("the log is not writable"));
    };
    let logger = Arc::new(Mutex::new(logger));
    let app = App::builder()
        .with_logger::<memmap::MmapSectionStorage, UnifiedLoggerWrite>(logger)
        .build()?;
    let mut app = app.start().map_err(|failure| failure.error)?;
    let mut times = Vec::with_capacity(batches);
    for batch in 0..=batches {
        let start = Instant::now();
        for _ in 0..cycles {
            app.run_one_iteration()?;
        }
        if batch > 0 {
            times.push(start.elapsed().as_nanos() as u64);
        }
    }
    app.stop().map_err(|failure| failure.error)?;
    Ok(times)
}
