package llamaflags

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// command returns the flags of a command like quern serve, and llama-server's.
func command() *pflag.FlagSet {
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	fs.IntP("predict", "n", -1, "")
	fs.IntP("ctx-size", "c", 0, "")
	fs.StringP("alias", "a", "", "")
	fs.String("weights", "auto", "")
	fs.String("log-level", "info", "")
	fs.String("reasoning", "auto", "")
	fs.String("reasoning-format", "auto", "")
	fs.Int("reasoning-budget", -1, "")
	fs.String("cache-type-k", "f16", "")
	fs.Float32("temp", 0.8, "")
	fs.String("speculate", "auto", "")
	fs.Int("draft-max", 16, "")
	fs.Bool("ui", true, "")
	fs.Lookup("ui").NoOptDefVal = "true"
	fs.StringP("prompt", "p", "", "")
	Alias(fs, "prompt", "-pg")
	Define(fs, Common, Sampling, Speculation, Server)
	return fs
}

// A command of llama-cli's flags does those that it has, and names the command that does the others.
func TestOtherCommands(t *testing.T) {
	for args, want := range map[string]string{
		"-no-cnv": "", "-cnv": `-cnv: "quern chat" does that, and this command does not`, "-st": `-st: "quern chat" does`,
		"--chat-template x": `--chat-template: "quern chat" does`, "-r x": "-r: this command does not do that",
		"--in-prefix x": "--in-prefix: the chat template", "-f x": "", "--jinja": "", "--image x": "--image: ", "--video x": "--video: ", "-gan 1": "",
	} {
		fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
		fs.StringP("file", "f", "", "")
		Define(fs, Common, CLI)
		given, err := Rewrite(fs, strings.Fields(args))
		if err == nil {
			err = fs.Parse(given)
		}
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		got := ""
		if err := Refused(fs); err != nil {
			got = err.Error()
		}
		if !begins(got, want) || len(Warnings(fs)) > 0 {
			t.Errorf("%s: refused %q, warned %q; want %q", args, got, Warnings(fs), want)
		}
	}
}

func TestRewrite(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"-ctk q8_0", "--cache-type-k q8_0"},
		{"-ctk=q8_0 -n 3", "--cache-type-k=q8_0 -n 3"},
		{"-pg 512,128 -ctk q8_0", "--prompt 512,128 --cache-type-k q8_0"},
		{"--cache-type-k -ctk", "--cache-type-k -ctk"}, // the value of the flag before
		{"-p -ctk", "-p -ctk"},
		{"-px -ctk q8_0", "-px --cache-type-k q8_0"}, // -p has its value
		{"--prompt=x -ctk q8_0", "--prompt=x --cache-type-k q8_0"},
		{"--ui -ctk q8_0", "--ui --cache-type-k q8_0"},
		{"-- -ctk q8_0", "-- -ctk q8_0"},
		{"-ct 5", "-ct 5"},
		{"ctk pg", "ctk pg"},
		{"- -ctk 5", "- --cache-type-k 5"},
		{"--temperature 0.5 --n-predict 7", "--temp 0.5 --predict 7"},
		{"--n_predict 7", "--predict 7"},
		{"--no-webui --webui", "--ui=off --ui"},
		{"--no-ui=false", "--ui=on"},
		{"-no-kvu -nocb", "--kv-unified=off --cont-batching=off"},
		{"-v -e", "--verbose --escape"},
		{"--usage", "--help"},
		{"-fa -ngl 99 -fa", "--flash-attn=on --n-gpu-layers 99 --flash-attn=on"},
		{"-fa off", "--flash-attn off"},
		{"--control-vector-layer-range 1 2 -n 3", "--control-vector-layer-range=1 2 -n 3"},
	} {
		in := strings.Fields(test.in)
		before := slices.Clone(in)
		got, err := Rewrite(command(), in)
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%q: got %q, %v; want %q", test.in, got, err, test.want)
		}
		if !slices.Equal(in, before) {
			t.Errorf("%q: the caller's arguments were changed", test.in)
		}
	}
	for in, want := range map[string]string{
		"-ngl99":     `unknown flag "-ngl99", want -ngl 99`,
		"-agent1":    `-ag takes no value`,
		"--no-ui=x":  "--no-ui takes no value",
		"-temp":      `unknown flag "-temp", want --temp`,
		"-n_predict": `unknown flag "-n_predict", want --n-predict`,
	} {
		if got, err := Rewrite(command(), []string{in}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestNear(t *testing.T) {
	for typed, want := range map[string]string{
		"tmp": "--temp", "no-mmapp": "--no-mmap", "cache_type_q": "--cache-type-k", "n-predct": "--n-predict",
		"frobnicate": "", "x": "", "": "",
	} {
		if got := Near(command(), typed); got != want {
			t.Errorf("--%s: got %q, want %q", typed, got, want)
		}
	}
}

// What was given is done, warned of or refused, and said in one line.
func TestGiven(t *testing.T) {
	for _, test := range []struct {
		args    string
		warning string
		refused string
		sets    string // FLAG=VALUE
	}{
		{args: "-ngl 99", warning: "-ngl 99 has no effect: "}, // by the name that was typed
		{args: "--gpu-layers 99", warning: "--gpu-layers 99 has no effect: "},
		{args: "--n-gpu-layers 99", warning: "--n-gpu-layers 99 has no effect: "},
		{args: "-ngl 99 -mg 1 -sm row", warning: "-mg, -ngl 99, -sm row have no effect: there is no GPU"}, // for one reason
		{args: "-ngl 0"},
		{args: "-ngl 99 -ngl 0"},
		{args: "-hft secret", warning: "-hft has no effect: "},
		{args: "-no-kvu", warning: "-no-kvu has no effect: "},
		{args: "-kvu"},
		{args: "--offline", warning: "--offline has no effect: "},            // this command has none
		{args: "--mirostat 2", refused: "--mirostat: this command does not"}, // this command has none
		{args: "--lora x.gguf", refused: "--lora: "},
		{args: "--spec-type none", sets: "speculate=none"},
		{args: "--spec-default", sets: "speculate=auto"},
		{args: "--draft 8", sets: "draft-max=8"},
		{args: "--spec-ngram-size-n 8", warning: "--spec-ngram-size-n has no effect: "},
		{args: "--no-mmap", sets: "weights=packed"},
		{args: "--load-mode mmap", sets: "weights=mapped"},
		{args: "--load-mode mlock", warning: "--load-mode mlock has no effect: "},
		{args: "--no-repack", sets: "weights=mapped"},
		{args: "-v", sets: "log-level=debug"},
		{args: "-lv 2", sets: "log-level=warn"},
		{args: "-lv 9", sets: "log-level=debug"},
		{args: "--log-disable --log-level warn", sets: "log-level=warn"}, // the last one
		{args: "--reasoning-budget 512", sets: "reasoning-budget=512"},
		{args: "--skip-chat-parsing", sets: "reasoning-format=none"},
		{args: "--no-skip-chat-parsing", sets: "reasoning-format=auto"},
		{args: "--control-vector-layer-range 1 2", refused: "--control-vector-layer-range: "},
		{args: "--samplers top_k", refused: "--samplers: this command does not"}, // this command has none
	} {
		fs := command()
		args, err := Rewrite(fs, strings.Fields(test.args))
		if err == nil {
			err = fs.Parse(args)
		}
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		warnings, refused := strings.Join(Warnings(fs), "\n"), ""
		if err := Refused(fs); err != nil {
			refused = err.Error()
		}
		if !begins(warnings, test.warning) || !begins(refused, test.refused) || strings.Contains(warnings+refused, "secret") {
			t.Errorf("%s: warned %q, refused %q; want %q, %q", test.args, warnings, refused, test.warning, test.refused)
		}
		if name, want, ok := strings.Cut(test.sets, "="); ok && fs.Lookup(name).Value.String() != want {
			t.Errorf("%s: --%s is %s, want %s", test.args, name, fs.Lookup(name).Value, want)
		}
	}
	for args, want := range map[string]string{
		"--threads-http x": "want a whole number", "--mirostat-lr x": "want a number", "-cb=x": "want on or off", "--no-mmap=x": "--no-mmap takes no value",
	} {
		fs := command()
		given, err := Rewrite(fs, strings.Fields(args))
		if err == nil {
			err = fs.Parse(given)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// begins is strings.HasPrefix, where nothing begins with nothing alone.
func begins(s, prefix string) bool {
	return strings.HasPrefix(s, prefix) && (s == "") == (prefix == "")
}

func TestEnvironment(t *testing.T) {
	for _, test := range []struct {
		flag, args      string
		env             string
		variable, value string
	}{
		{"temp", "", "LLAMA_ARG_TEMPERATURE=1", "LLAMA_ARG_TEMPERATURE", "1"},
		{"ui", "", "LLAMA_ARG_UI=0", "LLAMA_ARG_UI", "0"},
		{"ui", "", "LLAMA_ARG_NO_UI=1", "LLAMA_ARG_NO_UI", "off"},
		{"mmap", "", "LLAMA_ARG_NO_MMAP=1", "LLAMA_ARG_NO_MMAP", "off"},
		{"mmap", "--weights mapped", "LLAMA_ARG_NO_MMAP=1", "", ""}, // the command line comes first
		{"n-gpu-layers", "", "LLAMA_ARG_N_GPU_LAYERS=7", "LLAMA_ARG_N_GPU_LAYERS", "7"},
		{"hf-token", "", "HF_TOKEN=x", "", ""}, // is other programs' too
		{"temp", "", "LLAMA_ARG_TEMPERATURE=", "", ""},
	} {
		t.Run(test.env+" "+test.args, func(t *testing.T) {
			name, value, _ := strings.Cut(test.env, "=")
			t.Setenv(name, value)
			fs := command()
			if err := fs.Parse(strings.Fields(test.args)); err != nil {
				t.Fatal(err)
			}
			if variable, value := Environment(fs.Lookup(test.flag)); variable != test.variable || value != test.value {
				t.Errorf("got %q %q, want %q %q", variable, value, test.variable, test.value)
			}
		})
	}
	// A command with a flag of the table reads its variable without more.
	t.Setenv("LLAMA_ARG_BATCH", "64")
	fs := pflag.NewFlagSet("y", pflag.ContinueOnError)
	fs.Int("batch-size", 0, "")
	if variable, value := Environment(fs.Lookup("batch-size")); variable != "LLAMA_ARG_BATCH" || value != "64" {
		t.Errorf("got %q %q", variable, value)
	}
}

// The table says one thing of each flag, and no name means two.
func TestTable(t *testing.T) {
	seen := map[string]Group{}
	for _, r := range Rows() {
		said := 0
		for _, s := range []string{r.Flag, r.Always, r.Ignored, r.Refused} {
			if s != "" {
				said++
			}
		}
		if said != 1 && !(said == 0 && r.Becomes != nil) {
			t.Errorf("%s: the table says %d things of it, want one", r.Names, said)
		}
		if (r.Kind == Switch) != (r.No != "") {
			t.Errorf("%s: a switch has names that turn it off, and nothing else has", r.Names)
		}
		for _, name := range slices.Concat(r.names(), r.off(), strings.Fields(r.Env)) {
			if seen[name]&r.group() != 0 || seen[name] != 0 && r.Group != Bench { // which meets no other in a command
				t.Errorf("%s is there twice", name)
			}
			seen[name] |= r.group()
		}
		for _, text := range []string{r.Always, r.Ignored, r.Refused, r.Note} {
			if strings.ContainsAny(text, "\n|") || strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is no cell of a table", r.Names, text)
			}
		}
	}
}
