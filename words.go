package quern

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/engine"
)

// The packages below say what is to be set as the program's flags. A caller of this package sets options: their names are
// put in the place of flags in errors and warnings, here alone.
var inOptions = strings.NewReplacer(
	"; --rope-scaling yarn with --rope-scale makes it longer", "",
	" (-ctk q8_0 -ctv q8_0)", ` (WithKVTypes("q8_0", "q8_0"))`,
	" (-c ", " (WithContextLength ",
	`; "quern transcribe" and /v1/audio/transcriptions give it some`, "; Model.Transcribe gives it some",
	"--threads", "DeviceConfig.Threads",
	"--cpu-mask, --cpu-range:", "DeviceConfig.CPUs:",
	"--cpu-mask and --cpu-range name", "DeviceConfig.CPUs names",
	"--numa", "DeviceConfig.NUMA",
	"--model-draft", "WithDraft",
	"--chat-template", "WithChatTemplate",
	"--lora", "WithAdapter",
	"--memory", "WithMemory",
	"--model-cache", "WithCache",
	"--offline", "WithoutDownloads",
	"with --pre,", `with "quern convert --pre",`,
	"with --skip", `with "quern convert --skip"`,
	"want --outtype", `want "quern convert --outtype"`,
)

// noOption are flags that no option is for: advice to set them is left out.
var noOption = []string{"--weights"}

// advised leaves the advice that a caller of this package can follow.
func advised(e *engine.FitError) {
	e.Advice = slices.DeleteFunc(slices.Clone(e.Advice), func(advice string) bool {
		return slices.ContainsFunc(noOption, func(flag string) bool { return strings.Contains(advice, flag) })
	})
}
