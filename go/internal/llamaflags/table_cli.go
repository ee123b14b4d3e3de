package llamaflags

const (
	ownMarks    = "the chat template sets prefixes and suffixes; --chat-template replaces it"
	keptTexts   = "prompts are evaluated again at each start; \"quern serve\" has a prefix cache, which --cache-disk keeps across restarts"
	ownTimings  = `--stats of "quern run" and /stats in "quern chat" show them`
	ownGrouping = "self-extend is not supported; --rope-scaling and --rope-scale extend the context"
)

// cli are the flags of llama-cli and llama-completion that llama-server does not have.
var cli = []Row{
	{Names: "-p --prompt", Group: CLI, Flag: "prompt"},
	{Names: "-f --file", Group: CLI, Flag: "file", Of: "quern run"},
	{Names: "-bf --binary-file", Group: CLI, Refused: "-f reads the file's bytes unchanged, except for a trailing newline"},
	{Names: "-sys --system-prompt", Group: CLI, Flag: "system-prompt", Of: "quern chat"},
	{Names: "-sysf --system-prompt-file", Group: CLI, Flag: "system-prompt-file", Of: "quern chat"},
	{Names: "-cnv --conversation", No: "-no-cnv --no-conversation", Kind: Switch, Group: CLI, Flag: "conversation", Of: "quern chat", Neutral: "off", Note: `"quern chat" always chats and "quern run" never does; each refuses the opposite`},
	{Names: "-st --single-turn", Kind: Bare, Group: CLI, Flag: "single-turn", Of: "quern chat"},
	{Names: "-i --interactive", Kind: Bare, Group: CLI, Flag: "interactive", Of: "quern chat", Note: "always on"},
	{Names: "-if --interactive-first", Kind: Bare, Group: CLI, Flag: "interactive-first", Of: "quern chat", Note: "always on"},
	{Names: "-mli --multiline-input", Kind: Bare, Group: CLI, Ignored: `in "quern chat" a trailing \ continues a line, and """ begins and ends a multi-line input`},
	{Names: "--in-prefix", Group: CLI, Refused: ownMarks},
	{Names: "--in-suffix", Group: CLI, Refused: ownMarks},
	{Names: "--in-prefix-bos", Kind: Bare, Group: CLI, Refused: ownMarks},
	{Names: "-co --color", Kind: Maybe, Group: CLI, Neutral: "off auto", Ignored: "answers are not colored; other text is dimmed in a terminal"},
	{Names: "--simple-io", Kind: Bare, Group: CLI, Ignored: "line editing is off if TERM is dumb or the input is not a terminal"},
	{Names: "--display-prompt", No: "--no-display-prompt", Kind: Switch, Group: CLI, Neutral: "off", Ignored: "only the continuation is printed"},
	{Names: "--verbose-prompt", Kind: Bare, Group: CLI, Ignored: `"quern tokenize" shows the tokens of a text`},
	{Names: "--show-timings", No: "--no-show-timings", Kind: Switch, Env: "LLAMA_ARG_SHOW_TIMINGS", Group: CLI, Neutral: "off", Ignored: ownTimings},
	{Names: "-ptc --print-token-count", Kind: Int, Group: CLI, Neutral: "<0", Ignored: ownTimings},
	{Names: "--prompt-cache", Group: CLI, Ignored: keptTexts},
	{Names: "--prompt-cache-all", Kind: Bare, Group: CLI, Ignored: keptTexts},
	{Names: "--prompt-cache-ro", Kind: Bare, Group: CLI, Ignored: keptTexts},
	{Names: "-gan --grp-attn-n", Kind: Int, Env: "LLAMA_ARG_GRP_ATTN_N", Group: CLI, Neutral: "1", Refused: ownGrouping},
	{Names: "-gaw --grp-attn-w", Kind: Int, Env: "LLAMA_ARG_GRP_ATTN_W", Group: CLI, Ignored: ownGrouping},
	{Names: "--image", Group: CLI, Flag: "image", Needed: true, Note: "repeatable; pictures by their first bytes, whatever they are called"},
	{Names: "--audio", Group: CLI, Flag: "audio", Needed: true, Note: "as --image, sounds"},
	{Names: "--video", Group: CLI, Flag: "video", Needed: true, Note: "repeatable; a GIF, a folder with a picture for each frame, or a film, which the ffmpeg in PATH reads; at most 128 frames"},
}
