package llamaflags

const (
	byName       = "models are named one by one: -m FILE or -m NAME=FILE, which may be given again"
	allLoaded    = "all models that -m names are loaded at the start and stay"
	noEmbeddings = "embeddings and reranking are not supported yet; another program serves them"
	noAgent      = "the server calls no tools and no MCP servers; the client does"
	ownPage      = "the page to chat with has settings of its own, which it keeps in the browser"
	oneMemory    = "requests share one memory, of --kv-memory bytes, and take of it what they need"
	byItself     = "texts seen before are found again by whoever begins with them, in whatever slot, as far as --kv-memory goes"
)

// server are the flags of quern serve.
var server = []Row{
	{Names: "--host", Env: "LLAMA_ARG_HOST", Group: Server, Flag: "host"},
	{Names: "--port", Kind: Int, Env: "LLAMA_ARG_PORT", Group: Server, Flag: "port"},
	{Names: "--reuse-port", Kind: Bare, Env: "LLAMA_ARG_REUSE_PORT", Group: Server, Flag: "reuse-port"},
	{Names: "--path", Env: "LLAMA_ARG_STATIC_PATH", Group: Server, Flag: "path"},
	{Names: "--api-prefix", Env: "LLAMA_ARG_API_PREFIX", Group: Server, Flag: "api-prefix"},
	{Names: "-a --alias", Env: "LLAMA_ARG_ALIAS", Group: Server, Flag: "alias"},
	{Names: "--tags", Env: "LLAMA_ARG_TAGS", Group: Server, Flag: "tags"},
	{Names: "-to --timeout", Kind: Int, Env: "LLAMA_ARG_TIMEOUT", Group: Server, Flag: "timeout", Note: "of a write to a client that does not read; computing has no limit but that of the request"},
	{Names: "--sse-ping-interval", Kind: Int, Env: "LLAMA_ARG_SSE_PING_INTERVAL", Group: Server, Flag: "sse-ping-interval"},
	{Names: "--threads-http", Kind: Int, Env: "LLAMA_ARG_THREADS_HTTP", Group: Server, Ignored: "connections need no threads of their own"},
	{Names: "--api-key", Env: "LLAMA_API_KEY", Group: Server, Flag: "api-key"},
	{Names: "--api-key-file", Env: "LLAMA_ARG_API_KEY_FILE", Group: Server, Flag: "api-key-file", Note: "also with hashes of keys, and weights"},
	{Names: "--ssl-key-file", Env: "LLAMA_ARG_SSL_KEY_FILE", Group: Server, Flag: "ssl-key-file"},
	{Names: "--ssl-cert-file", Env: "LLAMA_ARG_SSL_CERT_FILE", Group: Server, Flag: "ssl-cert-file", Note: "read again when it changes"},
	{Names: "--cors-origins", Env: "LLAMA_ARG_CORS_ORIGINS", Group: Server, Flag: "cors-origins"},
	{Names: "--cors-methods", Env: "LLAMA_ARG_CORS_METHODS", Group: Server, Ignored: "pages of the allowed origins may use the methods that the API has"},
	{Names: "--cors-headers", Env: "LLAMA_ARG_CORS_HEADERS", Group: Server, Ignored: "pages of the allowed origins may send any header"},
	{Names: "--cors-credentials", No: "--no-cors-credentials", Kind: Switch, Env: "LLAMA_ARG_CORS_CREDENTIALS", Group: Server, Neutral: "off", Ignored: "there are no cookies; a page sends its key in a header"},

	{Names: "--webui --ui", No: "--no-webui --no-ui", Kind: Switch, Env: "LLAMA_ARG_UI LLAMA_ARG_WEBUI", Group: Server, Flag: "ui"},
	{Names: "--webui-config --ui-config", Env: "LLAMA_ARG_UI_CONFIG", Group: Server, Ignored: ownPage},
	{Names: "--webui-config-file --ui-config-file", Env: "LLAMA_ARG_UI_CONFIG_FILE", Group: Server, Ignored: ownPage},
	{Names: "--webui-mcp-proxy --ui-mcp-proxy", No: "--no-webui-mcp-proxy --no-ui-mcp-proxy", Kind: Switch, Env: "LLAMA_ARG_UI_MCP_PROXY", Group: Server, Neutral: "off", Refused: noAgent},
	{Names: "--tools", Env: "LLAMA_ARG_TOOLS", Group: Server, Refused: noAgent},
	{Names: "--tools-runtime", Env: "LLAMA_ARG_TOOLS_RUNTIME", Group: Server, Refused: noAgent},
	{Names: "--mcp-servers-config", Env: "LLAMA_ARG_MCP_SERVERS_CONFIG", Group: Server, Refused: noAgent},
	{Names: "--mcp-servers-json", Env: "LLAMA_ARG_MCP_SERVERS_JSON", Group: Server, Refused: noAgent},
	{Names: "-ag --agent", No: "-no-ag --no-agent", Kind: Switch, Env: "LLAMA_ARG_AGENT", Group: Server, Neutral: "off", Refused: noAgent},

	{Names: "-np --parallel", Kind: Int, Env: "LLAMA_ARG_N_PARALLEL", Group: Server, Flag: "parallel", Note: "-1 is the default, 32; they share one memory, and -c is of each"},
	{Names: "-cb --cont-batching", No: "-nocb --no-cont-batching", Kind: Switch, Env: "LLAMA_ARG_CONT_BATCHING", Group: Server, Neutral: "on", Ignored: "requests always join and leave the batch as they come; -np 1 has them run one after the other"},
	{Names: "-kvu --kv-unified", No: "-no-kvu --no-kv-unified", Kind: Switch, Env: "LLAMA_ARG_KV_UNIFIED", Group: Server, Neutral: "on", Ignored: oneMemory},
	{Names: "--kv-unified-per-slot", Kind: Int, Env: "LLAMA_ARG_KV_UNIFIED_PER_SLOT", Group: Server, Neutral: "0", Ignored: "-c is the limit of each request"},
	{Names: "-ctxcp --swa-checkpoints --ctx-checkpoints", Kind: Int, Env: "LLAMA_ARG_CTX_CHECKPOINTS", Group: Server, Ignored: byItself},
	{Names: "-cms --checkpoint-min-step", Kind: Int, Env: "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT", Group: Server, Ignored: byItself},
	{Names: "-cram --cache-ram", Kind: Int, Env: "LLAMA_ARG_CACHE_RAM", Group: Server, Ignored: "--kv-memory is for what runs and for texts seen before, together"},
	{Names: "--cache-idle-slots", No: "--no-cache-idle-slots", Kind: Switch, Env: "LLAMA_ARG_CACHE_IDLE_SLOTS", Group: Server, Neutral: "on", Ignored: byItself},
	{Names: "--cache-prompt", No: "--no-cache-prompt", Kind: Switch, Env: "LLAMA_ARG_CACHE_PROMPT", Group: Server, Flag: "cache-prompt"},
	{Names: "--cache-reuse", Kind: Int, Env: "LLAMA_ARG_CACHE_REUSE", Group: Server, Neutral: "0", Ignored: byItself},
	{Names: "-sps --slot-prompt-similarity", Kind: Num, Group: Server, Ignored: byItself},
	{Names: "--context-shift", No: "--no-context-shift", Kind: Switch, Env: "LLAMA_ARG_CONTEXT_SHIFT", Group: Server, Neutral: "off", Ignored: "an answer ends where the context is full"},
	{Names: "--warmup", No: "--no-warmup", Kind: Switch, Group: Server, Neutral: "on", Ignored: "a few passes at the start measure what the schedule is made of"},
	{Names: "--sleep-idle-seconds", Kind: Int, Group: Server, Neutral: "<0", Ignored: "the model stays loaded"},
	{Names: "--slot-save-path", Group: Server, Flag: "slot-save-path"},
	{Names: "--slots", No: "--no-slots", Kind: Switch, Env: "LLAMA_ARG_ENDPOINT_SLOTS", Group: Server, Flag: "slots"},
	{Names: "--metrics", No: "--no-metrics", Kind: Switch, Env: "LLAMA_ARG_ENDPOINT_METRICS", Group: Server, Flag: "metrics", Note: "it is on by default"},
	{Names: "--props", Kind: Bare, Env: "LLAMA_ARG_ENDPOINT_PROPS", Group: Server, Ignored: "GET /props is always answered, and no property can be changed while the server runs"},

	{Names: "-r --reverse-prompt", Group: Server, Flag: "reverse-prompt"},
	{Names: "-sp --special", Kind: Bare, Group: Server, Refused: "control tokens are not part of answers; requests get their ids with return_tokens"},
	{Names: "--spm-infill", Kind: Bare, Group: Server, Flag: "spm-infill"},
	{Names: "--jinja", No: "--no-jinja", Kind: Switch, Env: "LLAMA_ARG_JINJA", Group: Server, Neutral: "on", Ignored: "templates are always read as Jinja, those of --chat-template too"},
	{Names: "--chat-template", Env: "LLAMA_ARG_CHAT_TEMPLATE", Group: Server, Flag: "chat-template"},
	{Names: "--chat-template-file", Env: "LLAMA_ARG_CHAT_TEMPLATE_FILE", Group: Server, Flag: "chat-template-file"},
	{Names: "--chat-template-kwargs", Env: "LLAMA_ARG_CHAT_TEMPLATE_KWARGS", Group: Server, Flag: "chat-template-kwargs"},
	{Names: "--prefill-assistant", No: "--no-prefill-assistant", Kind: Switch, Env: "LLAMA_ARG_PREFILL_ASSISTANT", Group: Server, Flag: "prefill-assistant"},
	{Names: "--skip-chat-parsing", No: "--no-skip-chat-parsing", Kind: Switch, Env: "LLAMA_ARG_SKIP_CHAT_PARSING", Group: Server, Becomes: map[string]string{"on": "reasoning-format=none"}, Neutral: "off"},
	{Names: "--reasoning-format", Env: "LLAMA_ARG_THINK", Group: Server, Flag: "reasoning-format"},
	{Names: "-rea --reasoning", Env: "LLAMA_ARG_REASONING", Group: Server, Flag: "reasoning"},
	{Names: "--reasoning-effort", Env: "LLAMA_ARG_REASONING_EFFORT", Group: Server, Flag: "reasoning-effort"},
	{Names: "--reasoning-budget", Kind: Int, Env: "LLAMA_ARG_THINK_BUDGET", Group: Server, Becomes: map[string]string{"0": "reasoning=off"}, Neutral: "<0", Refused: "thinking can be turned off, with 0, but not bounded yet; -n bounds an answer with its thoughts"},
	{Names: "--reasoning-budget-message", Env: "LLAMA_ARG_THINK_BUDGET_MESSAGE", Group: Server, Ignored: "thinking is not bounded"},
	{Names: "--reasoning-preserve", No: "--no-reasoning-preserve", Kind: Switch, Env: "LLAMA_ARG_REASONING_PRESERVE", Group: Server, Ignored: "the template decides what it keeps of earlier thoughts; --chat-template-kwargs gives it variables"},

	{Names: "--mmproj-auto", No: "--no-mmproj --no-mmproj-auto", Kind: Switch, Env: "LLAMA_ARG_MMPROJ_AUTO", Group: Server, Neutral: "off", Ignored: noImages},
	{Names: "--mtmd-batch-max-tokens", Kind: Int, Env: "LLAMA_ARG_MTMD_BATCH_MAX_TOKENS", Group: Server, Ignored: noImages},
	{Names: "--media-path", Group: Server, Ignored: noImages},
	{Names: "--embeddings --embedding", Kind: Bare, Env: "LLAMA_ARG_EMBEDDINGS", Group: Server, Refused: noEmbeddings},
	{Names: "--reranking --rerank", Kind: Bare, Env: "LLAMA_ARG_RERANKING", Group: Server, Refused: noEmbeddings},
	{Names: "--pooling", Env: "LLAMA_ARG_POOLING", Group: Server, Neutral: "none", Refused: noEmbeddings},
	{Names: "--embd-normalize", Kind: Int, Group: Server, Ignored: "embeddings are not supported yet"},
	{Names: "--lora-init-without-apply", Kind: Bare, Group: Server, Ignored: "there are no adapters to apply"},
	{Names: "--models-dir", Env: "LLAMA_ARG_MODELS_DIR", Group: Server, Refused: byName},
	{Names: "--models-preset", Env: "LLAMA_ARG_MODELS_PRESET", Group: Server, Refused: byName},
	{Names: "--models-max", Kind: Int, Env: "LLAMA_ARG_MODELS_MAX", Group: Server, Ignored: allLoaded},
	{Names: "--models-autoload", No: "--no-models-autoload", Kind: Switch, Env: "LLAMA_ARG_MODELS_AUTOLOAD", Group: Server, Ignored: allLoaded},
	{Names: "--log-prompts-dir", Group: Server, Refused: "prompts and answers are never written to the log; a proxy in front can keep them"},

	{Names: "--embd-gemma-default", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--fim-qwen-1.5b-default", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--fim-qwen-3b-default", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--fim-qwen-7b-default", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--fim-qwen-7b-spec", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--fim-qwen-14b-spec", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--fim-qwen-30b-default", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--gpt-oss-20b-default", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--gpt-oss-120b-default", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--vision-gemma-4b-default", Kind: Bare, Group: Server, Refused: noDownload},
	{Names: "--vision-gemma-12b-default", Kind: Bare, Group: Server, Refused: noDownload},
}
