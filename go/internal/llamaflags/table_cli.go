package llamaflags

const (
	ownMarks    = "the chat template says what stands around messages; --chat-template gives another"
	keptTexts   = "a text is read again at each start; \"quern serve\" finds what it has read before, with --cache-disk after a restart too"
	ownTimings  = `--stats of "quern run" and /stats in "quern chat" show them`
	ownGrouping = "positions are not grouped; --rope-scaling and --rope-scale make a context longer"
)

// cli are the flags of llama-cli and llama-completion that llama-server does not have.
var cli = []Row{
	{Names: "-p --prompt", Group: CLI, Flag: "prompt"},
	{Names: "-f --file", Group: CLI, Flag: "file", Of: "quern run"},
	{Names: "-bf --binary-file", Group: CLI, Refused: "-f takes the file's bytes as they are, but for a line break at its end"},
	{Names: "-sys --system-prompt", Group: CLI, Flag: "system-prompt", Of: "quern chat"},
	{Names: "-sysf --system-prompt-file", Group: CLI, Flag: "system-prompt-file", Of: "quern chat"},
	{Names: "-cnv --conversation", No: "-no-cnv --no-conversation", Kind: Switch, Group: CLI, Flag: "conversation", Of: "quern chat", Neutral: "off", Note: `"quern chat" always talks and "quern run" never, and each refuses the other`},
	{Names: "-st --single-turn", Kind: Bare, Group: CLI, Flag: "single-turn", Of: "quern chat"},
	{Names: "-i --interactive", Kind: Bare, Group: CLI, Flag: "interactive", Of: "quern chat", Note: "which always is"},
	{Names: "-if --interactive-first", Kind: Bare, Group: CLI, Flag: "interactive-first", Of: "quern chat", Note: "which always is"},
	{Names: "-mli --multiline-input", Kind: Bare, Group: CLI, Ignored: `in "quern chat" a line that ends with \ goes on in the next, and so does all between """ and """`},
	{Names: "--in-prefix", Group: CLI, Refused: ownMarks},
	{Names: "--in-suffix", Group: CLI, Refused: ownMarks},
	{Names: "--in-prefix-bos", Kind: Bare, Group: CLI, Refused: ownMarks},
	{Names: "-co --color", Kind: Maybe, Group: CLI, Neutral: "off auto", Ignored: "answers have no colors; what is not the answer is dimmed in a terminal"},
	{Names: "--simple-io", Kind: Bare, Group: CLI, Ignored: "lines are read as they are where TERM is dumb or the input is no terminal"},
	{Names: "--display-prompt", No: "--no-display-prompt", Kind: Switch, Group: CLI, Neutral: "off", Ignored: "the continuation alone is written"},
	{Names: "--verbose-prompt", Kind: Bare, Group: CLI, Ignored: `"quern tokenize" shows the tokens of a text`},
	{Names: "--show-timings", No: "--no-show-timings", Kind: Switch, Env: "LLAMA_ARG_SHOW_TIMINGS", Group: CLI, Neutral: "off", Ignored: ownTimings},
	{Names: "-ptc --print-token-count", Kind: Int, Group: CLI, Neutral: "<0", Ignored: ownTimings},
	{Names: "--prompt-cache", Group: CLI, Ignored: keptTexts},
	{Names: "--prompt-cache-all", Kind: Bare, Group: CLI, Ignored: keptTexts},
	{Names: "--prompt-cache-ro", Kind: Bare, Group: CLI, Ignored: keptTexts},
	{Names: "-gan --grp-attn-n", Kind: Int, Env: "LLAMA_ARG_GRP_ATTN_N", Group: CLI, Neutral: "1", Refused: ownGrouping},
	{Names: "-gaw --grp-attn-w", Kind: Int, Env: "LLAMA_ARG_GRP_ATTN_W", Group: CLI, Ignored: ownGrouping},
	{Names: "--audio --video --image", Group: CLI, Refused: noImages},
}
