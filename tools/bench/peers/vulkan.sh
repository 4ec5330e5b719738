#!/usr/bin/env bash
# Builds the official ExecuTorch runtime with its Vulkan backend, as a peer of `afferent-bench gpu`:
#
#   vulkan.sh EXECUTORCH FLATBUFFERS HEADERS VOLK ALLOCATOR WHEEL RUNNER.cpp OUTPUT
#
# EXECUTORCH   checkout of pytorch/executorch
# FLATBUFFERS  checkout of google/flatbuffers, in the version of `flatc` (24.3.25 for ExecuTorch 1.5)
# HEADERS      checkout of KhronosGroup/Vulkan-Headers
# VOLK         checkout of zeux/volk
# ALLOCATOR    checkout of GPUOpen-LibrariesAndSDKs/VulkanMemoryAllocator
# WHEEL        folder with the unpacked wheel of executorch, for its libraries and `flatc`
# RUNNER.cpp   program that runs a method as `afferent-bench --peer` asks for
# OUTPUT       folder of the objects and of the program `executorch_vulkan_runner`
#
# Needs g++, Python 3 with PyYAML, and glslc of the Vulkan SDK 1.4 or newer.
set -euo pipefail
(($# == 8)) || {
    sed -n '2,17s/^# \?//p' "$0"
    exit 2
}
executorch=$(realpath "$1") flatbuffers=$(realpath "$2") headers=$(realpath "$3") volk=$(realpath "$4")
allocator=$(realpath "$5") wheel=$(realpath "$6")/executorch runner=$(realpath "$7")
mkdir -p "$8"
output=$(realpath "$8")
backend=$executorch/backends/vulkan
schema=$output/include/executorch/backends/vulkan/serialization
mkdir -p "$schema" "$output/objects" "$output/shaders"

# The runtime is that of the wheel; only the backend is compiled from the checkout.
ln -sfn "$executorch/backends/vulkan/runtime" "$output/include/executorch/backends/vulkan/runtime"
# Unpacked wheels have lost the right to run programs.
install -m 755 "$wheel/data/bin/flatc" "$output/flatc"
"$output/flatc" --cpp --cpp-std c++11 --scoped-enums -o "$schema" "$backend/serialization/schema.fbs"
python3 "$backend/runtime/gen_vulkan_spv.py" --optimize --nthreads "$(nproc)" \
    --glsl-path "$backend/runtime/graph/ops/glsl" --output-path "$output/shaders" \
    --tmp-dir-path "$output/shaders/cache" --glslc-path "$(command -v glslc)" --env USE_VULKAN=1

flags=(-w -O2 -DUSE_VULKAN_WRAPPER -DUSE_VULKAN_VOLK -DVK_ENABLE_BETA_EXTENSIONS
    -DC10_USING_CUSTOM_GENERATED_MACROS -DET_EVENT_TRACER_ENABLED
    -I"$output/include" -I"$wheel/include" -I"$wheel/include/executorch/runtime/core/portable_type/c10"
    -I"$allocator" -I"$flatbuffers/include" -I"$headers/include" -I"$volk")
compile() {
    local object
    object=$output/objects/$(echo "$1" | tr / _).o
    if [[ $1 == *.c ]]; then
        gcc "${flags[@]}" -c "$1" -o "$object"
    else
        g++ -std=c++17 "${flags[@]}" -c "$1" -o "$object"
    fi
}
files=("$volk/volk.c" "$output/shaders/spv.cpp" "$runner")
while read -r file; do files+=("$file"); done < <(find "$backend/runtime" -name '*.cpp' | sort)
for file in "${files[@]}"; do
    while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
    compile "$file" &
done
while (($(jobs -rp | wc -l))); do wait -n; done

g++ "$output"/objects/*.o -o "$output/executorch_vulkan_runner" -L"$wheel/lib" -Wl,--no-as-needed \
    -lexecutorch -lexecutorch_kernels_optimized -lexecutorch_kernels_quantized -lexecutorch_threadpool \
    -lexecutorch_backend_xnnpack -ldl -lpthread -Wl,-rpath,"$wheel/lib"
echo "$output/executorch_vulkan_runner"
