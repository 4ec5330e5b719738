#!/bin/sh
# Writes `h264.mp4` and the checksums (Adler-32) of its images as ffmpeg decodes them. The clip has
# B-frames and a gap of 80 ms. Made with ffmpeg 5.1.9 and libx264.
cd "$(dirname "$0")" || exit
ffmpeg -v error -y -f lavfi -i testsrc2=size=64x48:rate=25:duration=1 \
    -vf "select='not(eq(n,7))'" -fps_mode vfr -pix_fmt yuv420p -threads 1 \
    -c:v libx264 -profile:v high -x264-params bframes=3:b-adapt=0:b-pyramid=normal:ref=3:keyint=12 \
    -crf 16 -bitexact h264.mp4
ffmpeg -v error -y -i h264.mp4 -fps_mode passthrough -pix_fmt yuv420p -bitexact -f framecrc h264.framecrc
