package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// singleDash is the annotation of a flag that holds llama.cpp's short names of
// more than one letter for it.
const singleDash = "single-dash"

// alias lets the flag called name be given as -short too: -ctk for
// --cache-type-k. pflag itself would read that as -c -t -k.
func alias(fs *pflag.FlagSet, name, short string) {
	f := fs.Lookup(name)
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[singleDash] = append(f.Annotations[singleDash], short)
	f.Usage += " (-" + short + ")"
}

// doubleDashes rewrites the aliases among args for pflag, and leaves the values
// of flags as they are.
func doubleDashes(cmd *cobra.Command, args []string) []string {
	fs := cmd.Flags()
	long := map[string]string{} // alias to name
	fs.VisitAll(func(f *pflag.Flag) {
		for _, short := range f.Annotations[singleDash] {
			long[short] = f.Name
		}
	})
	out := slices.Clone(args)
	for i := 0; i < len(out) && out[i] != "--"; i++ {
		name, value, assigned := strings.Cut(out[i], "=")
		if to, ok := long[strings.TrimPrefix(name, "-")]; ok && len(name) > 1 && name[0] == '-' && name[1] != '-' {
			out[i] = "--" + to
			if assigned {
				out[i] += "=" + value
			}
		}
		if takesNext(fs, out[i]) {
			i++
		}
	}
	return out
}

// takesNext reports whether arg is a flag whose value is the argument after it.
func takesNext(fs *pflag.FlagSet, arg string) bool {
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		f := fs.Lookup(name)
		return f != nil && f.NoOptDefVal == "" // a switch has a value when it is given none
	}
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	for i, letter := range []byte(arg[1:]) { // -ab is -a -b, and -n5 is -n 5
		f := fs.ShorthandLookup(string(letter))
		if f == nil {
			return false
		}
		if f.NoOptDefVal == "" {
			return i == len(arg)-2
		}
	}
	return false
}

// dashes reads --top_k as --top-k, as llama.cpp does.
func dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// llamaArgs are llama.cpp's environment variables, by our flag.
var llamaArgs = map[string]string{
	"model":        "LLAMA_ARG_MODEL",
	"predict":      "LLAMA_ARG_N_PREDICT",
	"ctx-size":     "LLAMA_ARG_CTX_SIZE",
	"batch-size":   "LLAMA_ARG_BATCH",
	"ubatch-size":  "LLAMA_ARG_UBATCH",
	"threads":      "LLAMA_ARG_THREADS",
	"cache-type-k": "LLAMA_ARG_CACHE_TYPE_K",
	"cache-type-v": "LLAMA_ARG_CACHE_TYPE_V",
	"flash-attn":   "LLAMA_ARG_FLASH_ATTN",
	"top-k":        "LLAMA_ARG_TOP_K",

	"host":               "LLAMA_ARG_HOST",
	"port":               "LLAMA_ARG_PORT",
	"api-prefix":         "LLAMA_ARG_API_PREFIX",
	"alias":              "LLAMA_ARG_ALIAS",
	"parallel":           "LLAMA_ARG_N_PARALLEL",
	"timeout":            "LLAMA_ARG_TIMEOUT",
	"api-key":            "LLAMA_API_KEY",
	"cors-origins":       "LLAMA_ARG_CORS_ORIGINS",
	"ssl-cert-file":      "LLAMA_ARG_SSL_CERT_FILE",
	"ssl-key-file":       "LLAMA_ARG_SSL_KEY_FILE",
	"chat-template":      "LLAMA_ARG_CHAT_TEMPLATE",
	"chat-template-file": "LLAMA_ARG_CHAT_TEMPLATE_FILE",
	"reasoning-format":   "LLAMA_ARG_REASONING_FORMAT",
	"n-gpu-layers":       "LLAMA_ARG_N_GPU_LAYERS",
	"threads-http":       "LLAMA_ARG_THREADS_HTTP",
	"metrics":            "LLAMA_ARG_ENDPOINT_METRICS",
	"slots":              "LLAMA_ARG_ENDPOINT_SLOTS",
	"cont-batching":      "LLAMA_ARG_CONT_BATCHING",
	"jinja":              "LLAMA_ARG_JINJA",
	"mlock":              "LLAMA_ARG_MLOCK",
	"no-mmap":            "LLAMA_ARG_NO_MMAP",
}

// applyEnvironment gives each flag that the command line leaves out the value
// of QUERN_NAME, or of llama.cpp's variable for it. Empty counts as not set.
func applyEnvironment(fs *pflag.FlagSet) error {
	var failed error
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || failed != nil {
			return
		}
		own := "QUERN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		for _, variable := range []string{own, llamaArgs[f.Name]} {
			value := os.Getenv(variable)
			if value == "" {
				continue
			}
			if err := fs.Set(f.Name, value); err != nil {
				failed = usagef("environment variable %s: %w", variable, err)
			}
			return
		}
	})
	return failed
}
