package llamaflags

// Reasons why groups of flags have no effect, or are refused.
const (
	noGPU     = "there is no GPU: everything runs on the CPU"
	oneTeam   = "one thread pool evaluates prompts and generates; --threads sets its size"
	noVectors = "control vectors are not supported yet; leave the flag out"
)

// common are the flags of every command.
var common = []Row{
	{Names: "-h --usage --help", Kind: Bare, Flag: "help"},
	{Names: "--version", Kind: Bare, Flag: "version"},
	{Names: "--completion-bash", Kind: Bare, Refused: `"quern completion bash" prints it`},
	{Names: "-cl --cache-list", Kind: Bare, Refused: `"quern list" lists the downloaded models`},
	{Names: "--list-devices", Group: Common | Bench, Kind: Bare, Refused: `the CPU is the only device; "quern doctor" shows it`},
	{Names: "-m --model", Env: "LLAMA_ARG_MODEL", Flag: "model"},
	{Names: "-mu --model-url", Env: "LLAMA_ARG_MODEL_URL", Flag: "model-url", Note: "-m does not set the file's path: the download goes to the cache"},
	{Names: "-dr --docker-repo", Env: "LLAMA_ARG_DOCKER_REPO", Flag: "docker-repo"},
	{Names: "-hf -hfr --hf-repo", Env: "LLAMA_ARG_HF_REPO", Flag: "hf-repo", Note: "the cache is separate from llama.cpp's; of projectors (mmproj), Q8_0 comes before F16 and BF16"},
	{Names: "-hff --hf-file", Env: "LLAMA_ARG_HF_FILE", Flag: "hf-file"},
	{Names: "-hft --hf-token", Flag: "hf-token"},
	{Names: "--offline", Kind: Bare, Env: "LLAMA_ARG_OFFLINE", Flag: "offline"},

	{Names: "-t --threads", Kind: Int, Env: "LLAMA_ARG_THREADS", Flag: "threads", Note: "-1 and 0 are the default: the cores that the container's quota allows"},
	{Names: "-tb --threads-batch", Kind: Int, Ignored: oneTeam},
	{Names: "-C --cpu-mask", Flag: "cpu-mask", Note: "the CPUs that threads are pinned to, or with --cpu-strict 0 stay on, of those that the process may use"},
	{Names: "-Cr --cpu-range", Flag: "cpu-range", Note: "as -C"},
	{Names: "--cpu-strict", Group: Common | Bench, Flag: "cpu-strict", Note: "without it, threads are pinned if there is one for each core, or with -C or -Cr"},
	{Names: "--prio", Group: Common | Bench, Kind: Int, Neutral: "0", Ignored: "set the priority with nice or the service manager"},
	{Names: "--poll", Group: Common | Bench, Kind: Int, Ignored: "the time that threads spin before sleeping is fixed"},
	{Names: "-Cb --cpu-mask-batch", Ignored: oneTeam},
	{Names: "-Crb --cpu-range-batch", Ignored: oneTeam},
	{Names: "--cpu-strict-batch", Kind: Int, Ignored: oneTeam},
	{Names: "--prio-batch", Kind: Int, Ignored: oneTeam},
	{Names: "--poll-batch", Kind: Int, Ignored: oneTeam},
	{Names: "--numa", Group: Common | Bench, Env: "LLAMA_ARG_NUMA", Flag: "numa", Note: "also auto, the default, and off; packed weights are divided over the nodes, each part beside the threads that read it"},

	{Names: "-c --ctx-size", Kind: Int, Env: "LLAMA_ARG_CTX_SIZE", Flag: "ctx-size", Note: "applies to each request: -np does not divide it"},
	{Names: "-n --n-predict --predict", Kind: Int, Env: "LLAMA_ARG_N_PREDICT", Flag: "predict"},
	{Names: "-b --batch-size", Kind: Int, Env: "LLAMA_ARG_BATCH", Flag: "batch-size", Note: "tokens per forward pass; the smaller of -b and -ub applies"},
	{Names: "-ub --ubatch-size", Kind: Int, Env: "LLAMA_ARG_UBATCH", Flag: "ubatch-size", Note: "tokens per forward pass; the smaller of -b and -ub applies"},
	{Names: "--context-shift", No: "--no-context-shift", Kind: Switch, Env: "LLAMA_ARG_CONTEXT_SHIFT", Flag: "context-shift", Note: "refused for models with recurrent state, learned positions or an encoder"},
	{Names: "--keep", Kind: Int, Flag: "keep"},
	{Names: "--swa-full", Kind: Bare, Env: "LLAMA_ARG_SWA_FULL", Ignored: "the prefix cache keeps window blocks where a conversation can continue"},
	{Names: "-fa --flash-attn", Kind: Maybe, Env: "LLAMA_ARG_FLASH_ATTN", Neutral: "on auto 1 true", Ignored: "attention is always computed in blocks, as flash attention does"},
	{Names: "--perf", No: "--no-perf", Kind: Switch, Env: "LLAMA_ARG_PERF", Neutral: "on", Ignored: "timings are always measured"},
	{Names: "-e --escape", No: "--no-escape", Kind: Switch, Neutral: "off", Ignored: "escapes are not processed; use the shell's $'...'"},
	{Names: "-ctk --cache-type-k", Env: "LLAMA_ARG_CACHE_TYPE_K", Flag: "cache-type-k", Note: "q4_1 and iq4_nl become q4_0, q5_0 and q5_1 become q8_0, with a warning; the default is i16"},
	{Names: "-ctv --cache-type-v", Env: "LLAMA_ARG_CACHE_TYPE_V", Flag: "cache-type-v", Note: "as -ctk; models with latent attention (MLA) store no separate values"},
	{Names: "-dt --defrag-thold", Kind: Num, Env: "LLAMA_ARG_DEFRAG_THOLD", Ignored: "the KV cache is paged and needs no defragmentation"},

	{Names: "-lm --load-mode", Env: "LLAMA_ARG_LOAD_MODE", Becomes: map[string]string{"auto": "weights=auto", "mmap": "weights=mapped", "none": "weights=packed", "dio": "weights=packed"}, Ignored: noLock},
	{Names: "--mmap", No: "--no-mmap", Kind: Switch, Env: "LLAMA_ARG_MMAP", Becomes: map[string]string{"on": "weights=mapped", "off": "weights=packed"}},
	{Names: "--mlock", Kind: Bare, Env: "LLAMA_ARG_MLOCK", Ignored: noLock},
	{Names: "-lzm --lazy-mode", Env: "LLAMA_ARG_LAZY_MODE", Neutral: "off auto", Ignored: "--weights mapped reads weights on first use"},
	{Names: "--repack", No: "-nr --no-repack", Kind: Switch, Env: "LLAMA_ARG_REPACK", Becomes: map[string]string{"on": "weights=auto", "off": "weights=mapped"}},
	{Names: "--check-tensors", Kind: Bare, Ignored: "types, shapes and offsets are always checked, values never"},
	{Names: "--override-kv", Flag: "override-kv", Needed: true, Note: "with several models, it applies to each"},
	{Names: "-fit --fit", Env: "LLAMA_ARG_FIT", Neutral: "on", Ignored: "memory is always estimated before loading; what does not fit is made smaller or refused"},
	{Names: "-fitt --fit-target", Group: Common | Bench, Env: "LLAMA_ARG_FIT_TARGET", Ignored: "--memory limits the memory"},
	{Names: "-fitc --fit-ctx", Group: Common | Bench, Kind: Int, Env: "LLAMA_ARG_FIT_CTX", Ignored: "-c sets the context; one that does not fit in memory is refused"},

	{Names: "-ngl --gpu-layers --n-gpu-layers", Group: Common | Bench, Env: "LLAMA_ARG_N_GPU_LAYERS", Neutral: "0", Ignored: noGPU},
	{Names: "-dev --device", Group: Common | Bench, Env: "LLAMA_ARG_DEVICE", Neutral: "none CPU", Ignored: noGPU},
	{Names: "-sm --split-mode", Group: Common | Bench, Env: "LLAMA_ARG_SPLIT_MODE", Neutral: "none", Ignored: noGPU},
	{Names: "-ts --tensor-split", Group: Common | Bench, Env: "LLAMA_ARG_TENSOR_SPLIT", Ignored: noGPU},
	{Names: "-mg --main-gpu", Group: Common | Bench, Kind: Int, Env: "LLAMA_ARG_MAIN_GPU", Ignored: noGPU},
	{Names: "-ot --override-tensor", Group: Common | Bench, Env: "LLAMA_ARG_OVERRIDE_TENSOR", Ignored: noGPU},
	{Names: "-cmoe --cpu-moe", Kind: Bare, Env: "LLAMA_ARG_CPU_MOE", Always: "all weights are on the CPU"},
	{Names: "-ncmoe --n-cpu-moe", Group: Common | Bench, Kind: Int, Env: "LLAMA_ARG_N_CPU_MOE", Neutral: "<=0", Ignored: noGPU},
	{Names: "-ncffn --n-cpu-ffn", Kind: Int, Env: "LLAMA_ARG_N_CPU_FFN", Neutral: "<=0", Ignored: noGPU},
	{Names: "-kvo --kv-offload", No: "-nkvo --no-kv-offload", Kind: Switch, Env: "LLAMA_ARG_KV_OFFLOAD", Neutral: "off", Ignored: noGPU},
	{Names: "--op-offload", No: "--no-op-offload", Kind: Switch, Neutral: "off", Ignored: noGPU},
	{Names: "--no-host", Kind: Bare, Env: "LLAMA_ARG_NO_HOST", Ignored: noGPU},
	{Names: "--rpc", Group: Common | Bench, Refused: "several machines run a model by serve --ranks, with bin/quern-mpi or bin/quern-cluster"},

	{Names: "--rope-scaling", Env: "LLAMA_ARG_ROPE_SCALING_TYPE", Flag: "rope-scaling", Needed: true},
	{Names: "--rope-scale", Kind: Num, Env: "LLAMA_ARG_ROPE_SCALE", Flag: "rope-scale", Needed: true},
	{Names: "--rope-freq-base", Kind: Num, Env: "LLAMA_ARG_ROPE_FREQ_BASE", Flag: "rope-freq-base", Needed: true},
	{Names: "--rope-freq-scale", Kind: Num, Env: "LLAMA_ARG_ROPE_FREQ_SCALE", Flag: "rope-freq-scale", Needed: true},
	{Names: "--yarn-orig-ctx", Kind: Int, Env: "LLAMA_ARG_YARN_ORIG_CTX", Flag: "yarn-orig-ctx", Needed: true},
	{Names: "--yarn-ext-factor", Kind: Num, Env: "LLAMA_ARG_YARN_EXT_FACTOR", Flag: "yarn-ext-factor", Needed: true},
	{Names: "--yarn-attn-factor", Kind: Num, Env: "LLAMA_ARG_YARN_ATTN_FACTOR", Flag: "yarn-attn-factor", Needed: true},
	{Names: "--yarn-beta-slow", Kind: Num, Env: "LLAMA_ARG_YARN_BETA_SLOW", Flag: "yarn-beta-slow", Needed: true},
	{Names: "--yarn-beta-fast", Kind: Num, Env: "LLAMA_ARG_YARN_BETA_FAST", Flag: "yarn-beta-fast", Needed: true},

	{Names: "--lora", Flag: "lora", Needed: true, Note: "NAME=FILE names it for clients; with several models, it applies to the first"},
	{Names: "--lora-scaled", Flag: "lora-scaled", Needed: true, Note: "as --lora"},
	{Names: "--control-vector", Refused: noVectors},
	{Names: "--control-vector-scaled", Refused: noVectors},
	{Names: "--control-vector-layer-range", Kind: Pair, Refused: noVectors},

	{Names: "-mm --mmproj", Env: "LLAMA_ARG_MMPROJ", Flag: "mmproj", Needed: true, Note: "with several models, of the first; a checkpoint folder works too"},
	{Names: "-mmu --mmproj-url", Env: "LLAMA_ARG_MMPROJ_URL", Flag: "mmproj-url", Needed: true, Note: "as --mmproj"},
	{Names: "--mmproj-offload", No: "--no-mmproj-offload", Kind: Switch, Env: "LLAMA_ARG_MMPROJ_OFFLOAD", Neutral: "off", Ignored: "encoders run on the CPU, as all else"},
	{Names: "-mmdev --mmproj-device", Env: "MTMD_BACKEND_DEVICE", Ignored: "encoders run on the CPU, as all else"},
	{Names: "--image-min-tokens", Kind: Int, Env: "LLAMA_ARG_IMAGE_MIN_TOKENS", Flag: "image-min-tokens"},
	{Names: "--image-max-tokens", Kind: Int, Env: "LLAMA_ARG_IMAGE_MAX_TOKENS", Flag: "image-max-tokens"},
	{Names: "--video-fps", Kind: Num, Env: "LLAMA_ARG_VIDEO_FPS", Flag: "video-fps", Note: "2 by default; of run and chat: requests to a server have frames, and their rate"},
	{Names: "--video-timestamp-interval", Kind: Int, Env: "LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL", Ignored: "times stand between frames as each model was trained with them"},
	{Names: "--video-ffmpeg-dir", Env: "LLAMA_ARG_VIDEO_FFMPEG_DIR", Ignored: "the ffmpeg in PATH is used"},

	{Names: "-v --log-verbose --verbose", Kind: Bare, Becomes: map[string]string{"on": "log-level=debug"}, Note: "answers of OpenAI's endpoints have __verbose then"},
	{Names: "-lv --log-verbosity --verbosity", Kind: Int, Env: "LLAMA_ARG_LOG_VERBOSITY", Becomes: map[string]string{"0": "log-level=error", "1": "log-level=error", "2": "log-level=warn", "3": "log-level=info", "*": "log-level=debug"}},
	{Names: "--log-disable", Kind: Bare, Becomes: map[string]string{"on": "log-level=off"}},
	{Names: "--log-file", Env: "LLAMA_ARG_LOG_FILE", Flag: "log-file"},
	{Names: "--log-jsonl", No: "--no-log-jsonl", Kind: Switch, Env: "LLAMA_ARG_LOG_JSONL", Flag: "log-jsonl"},
	{Names: "--log-colors", Env: "LLAMA_ARG_LOG_COLORS", Flag: "log-colors"},
	{Names: "--log-timestamps", No: "--no-log-timestamps", Kind: Switch, Env: "LLAMA_ARG_LOG_TIMESTAMPS", Flag: "log-timestamps"},
	{Names: "--log-prefix", No: "--no-log-prefix", Kind: Switch, Env: "LLAMA_ARG_LOG_PREFIX", Neutral: "on", Ignored: "each line has its level"},
}

const noLock = "memory is not locked; use swapoff, or MemorySwapMax=0 for the service"
