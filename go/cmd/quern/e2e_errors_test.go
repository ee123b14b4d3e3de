package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

func TestUsageErrors(t *testing.T) {
	run := func(more ...string) []string { return append([]string{"run", "-m", "x.gguf", "-p", "x"}, more...) }
	for _, test := range []struct {
		args  []string
		words []string // in the message: the flag, the value, what would work
	}{
		{[]string{"rnu"}, []string{`"rnu"`, "did you mean run or rm"}},
		{[]string{"frobnicate", "-x"}, []string{`"frobnicate"`, "run", "inspect"}},
		{[]string{"--frobnicate"}, []string{"--frobnicate"}},
		{[]string{"help", "frobnicate"}, []string{`"frobnicate"`}},
		{[]string{"run", "--frobnicate"}, []string{"--frobnicate", "quern help run"}},
		{[]string{"run", "-m", "", "-p", "x"}, []string{"--model", "demo"}},
		{[]string{"run", "-m"}, []string{"'m'", "argument"}},
		{run("extra"), []string{"extra", "-p"}},
		{[]string{"run", "extra", "-f", "x"}, []string{"extra", "-f"}},
		{[]string{"run", "qwen3"}, []string{"qwen3 is no file", "quern pull ollama.com/qwen3", "-p"}},
		{[]string{"run", "llama3.2:1b", "hi there"}, []string{"quern pull ollama.com/llama3.2:1b"}},
		{[]string{"chat", "llama3.2"}, []string{"quern pull ollama.com/llama3.2"}},
		{[]string{"pull", "llama3.2"}, []string{"quern pull ollama.com/llama3.2", "hf.co/"}},
		{[]string{"stop", "qwen3"}, []string{`"stop"`, "/models/unload"}},
		{[]string{"run", "Once", "upon"}, []string{"upon", "quotes", "quern help run"}},
		{[]string{"run", "--tmp", "0"}, []string{"--tmp", "did you mean --temp?", "quern help run"}},
		{[]string{"run", "-temp", "0"}, []string{`"-temp"`, "want --temp"}},
		{[]string{"split"}, []string{"quern: split wants IN OUT, got nothing", "quern help split"}},
		{[]string{"join", "a", "b", "c"}, []string{"join wants IN OUT, got", `"c"`}},
		{[]string{"pull"}, []string{"NAME..."}},
		{[]string{"export-demo"}, []string{"quern help export-demo"}},
		{[]string{"export-demo", ""}, []string{"no file"}},
		{run("-f", "y"), []string{"-p", "-f"}},
		{run("-n", "-5"), []string{"-n", `"-5"`, "-1"}},
		{run("-n", "many"), []string{"-n", `"many"`}},
		{run("-t", "-2"), []string{"-t", `"-2"`, "from 1"}},
		{run("-t", "100000"), []string{"-t", `"100000"`}},
		{run("-c", "-1"), []string{"-c", `"-1"`, "from 0"}},
		{run("-b", "0"), []string{"-b", `"0"`, "from 1"}},
		{run("--temp", "nan"), []string{"--temp", `"nan"`, "from -100"}},
		{run("--temp", "-101"), []string{"--temp", `"-101"`, "from -100"}},
		{run("--top-p", "1.5"), []string{"--top-p", `"1.5"`, "from 0 to 1"}},
		{run("--min-p", "inf"), []string{"--min-p", `"inf"`}},
		{run("--top-k", "-3"), []string{"--top-k", `"-3"`}},
		{run("--seed", "x"), []string{"--seed", `"x"`}},
		{run("-ctk", "q3"), []string{"--cache-type-k", `"q3"`, "f16", "q8_0"}},
		{run("-ctv", "q3"), []string{"--cache-type-v", `"q3"`, "f16", "q8_0"}},
		{run("--weights", "zipped"), []string{"--weights", `"zipped"`, "packed"}},
		{run("--memory", "lots"), []string{"--memory", `"lots"`, "4G"}},
		{run("--memory", "-4G"), []string{"--memory", `"-4G"`}},
		{[]string{"tokenize", "-p", "x"}, []string{"-m"}},
		{[]string{"tokenize", "-m", "x.gguf", "two", "words"}, []string{`"words"`, "quotes"}},
		{[]string{"serve", "x.gguf"}, []string{`"x.gguf"`, "-m"}},
		{[]string{"perplexity", "x.gguf"}, []string{`"x.gguf"`, "-m"}},
		{[]string{"ps", "x"}, []string{`"x"`, "leave it out"}},
		{[]string{"tokenize", "-m", "x.gguf", "-p", "x", "--ids", "--detok"}, []string{"--detok", "--ids"}},
		{[]string{"perplexity", "-f", "x"}, []string{"-m"}},
		{[]string{"perplexity", "-m", "x.gguf"}, []string{"-f"}},
		{[]string{"perplexity", "-m", "x.gguf", "-f", "x", "-c", "2"}, []string{"-c", `"2"`, "from 6"}},
		{[]string{"inspect"}, []string{"-m"}},
		{[]string{"inspect", "a", "b"}, []string{"quern help inspect"}},
		{[]string{"completion", "tcsh"}, []string{"tcsh"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			quern(t, test.args...).refused(t, 2, test.words...)
		})
	}
}

func TestUsageErrorsOfTheEnvironment(t *testing.T) {
	for variable, words := range map[string][]string{
		"QUERN_ISA=avx1024":           {"QUERN_ISA", "avx1024", "scalar", "avx2"},
		"QUERN_TEMP=hot":              {"QUERN_TEMP", `"hot"`},
		"LLAMA_ARG_CTX_SIZE=-7":       {"LLAMA_ARG_CTX_SIZE", `"-7"`},
		"LLAMA_ARG_CACHE_TYPE_K=q7_1": {"LLAMA_ARG_CACHE_TYPE_K", `"q7_1"`, "f16"},
	} {
		t.Run(variable, func(t *testing.T) {
			invocation{args: []string{"run", "-m", "x.gguf", "-p", "x"}, env: []string{variable}}.run(t).refused(t, 2, words...)
		})
	}
}

func TestRunTimeErrors(t *testing.T) {
	small := filepath.Join(t.TempDir(), "small.txt")
	if err := os.WriteFile(small, []byte("Once upon a time"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"a file called as the demo", []string{"run", "-m", "./demo", "-p", "x"}, []string{"./demo", "no such file"}},
		{"no such folder", []string{"export-demo", "/nonexistent/x.gguf"}, []string{"/nonexistent"}},
		{"no such model", []string{"run", "-m", "/nonexistent/x.gguf", "-p", "x"}, []string{"/nonexistent/x.gguf"}},
		{"a folder", []string{"run", "-m", filepath.Dir(modelPath(t, "stories260K-f16.gguf")), "-p", "x"}, []string{"is a folder", "such as", ".gguf"}},
		{"a folder of nothing", []string{"inspect", "/"}, []string{"/ is a folder", "config.json"}},
		{"a device", []string{"run", "-m", "/dev/zero", "-p", "x"}, []string{"/dev/zero"}},
		{"not GGUF", []string{"run", "-m", small, "-p", "x"}, []string{small, "GGUF"}},
		{"no such prompt", []string{"run", "-m", demo.Name, "-f", "/nonexistent/p.txt"}, []string{"/nonexistent/p.txt"}},
		{"long prompt", []string{"run", "-m", demo.Name, "-c", "16", "-p", strings.Repeat("Once upon a time ", 20)}, []string{"the prompt has", "context", "16", "-c"}},
		{"long prompt, before the model is loaded", []string{"run", "-m", demo.Name, "-c", "4", "-p", "Once upon a time there was", "--memory", "1k"}, []string{"the prompt has", "the context is 4"}},
		{"little memory", []string{"run", "-m", demo.Name, "-p", "x", "--memory", "1k"}, []string{"1.0 kB", "--memory"}},
		{"huge context", []string{"run", "-m", demo.Name, "-p", "x", "-c", "200000000", "--memory", "1G"}, []string{"1.0 GB", "--memory"}},
		{"short text", []string{"perplexity", "-m", demo.Name, "-f", small}, []string{"the text has", "1024"}},
		{"no such text", []string{"perplexity", "-m", demo.Name, "-f", "/nonexistent/t.txt"}, []string{"/nonexistent/t.txt"}},
		{"id outside the vocabulary", []string{"tokenize", "-m", demo.Name, "--detok", "-p", "1 99999999"}, []string{`"99999999"`, "want 0 to"}},
		{"not an id", []string{"tokenize", "-m", demo.Name, "--detok", "1 x"}, []string{`"x"`}},
		{"an adapter as a model", []string{"run", "-m", modelPath(t, "TinyStories-656K-lora-r32-f16.gguf"), "-p", "x"}, []string{"LoRA adapter", "--lora"}},
		{"no server", []string{"health", "--host", filepath.Join(t.TempDir(), "none.sock")}, []string{"none.sock", "quern serve", "--host"}},
		{"no such checkpoint", []string{"convert", "/nonexistent"}, []string{"/nonexistent", "no such file"}},
		{"no such model in the cache", []string{"show", "gemma"}, []string{"gemma", "not in the cache", "quern list"}},
		{"a file as a checkpoint", []string{"convert", modelPath(t, "stories260K-f32.gguf")}, []string{"stories260K-f32.gguf", "folder"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			quern(t, test.args...).refused(t, 1, test.words...)
		})
	}
}

func TestUnsupportedModels(t *testing.T) {
	for path, words := range map[string][]string{
		unsupported(t):                      {`"graniteswitch"`, "its tokens switch adapters on and off"},
		testdata.Path(t, "archs/bert.gguf"): {"bert", "both directions", "quern embed"},
		testdata.Path(t, "hostile/ik-quantize-bad-rows/stories260K-Q4_0-row172-not-multiple-of-32.gguf"): {"172"},
	} {
		quern(t, "run", "-m", path, "-p", "x").refused(t, 1, words...)
	}
}

// unsupported returns a model of an architecture that is known and not supported.
func unsupported(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(testdata.Path(t, "archs/granitehybrid.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "unsupported.gguf")
	if err := os.WriteFile(path, bytes.Replace(data, []byte("granitehybrid"), []byte("graniteswitch"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// modestly runs the program with a gigabyte of memory and ten seconds of CPU time.
func modestly(t *testing.T, args ...string) result {
	t.Helper()
	r := invocation{args: args, limited: true}.run(t)
	if r.cpu > 10*time.Second {
		t.Errorf("took %v of CPU time, want under 10s", r.cpu)
	}
	return r
}

func TestMemoryOfTestsIsLimited(t *testing.T) {
	r := modestly(t, "run", "-m", demo.Name, "-p", "x", "-n", "1", "-c", "2000000", "-ctk", "f32", "-ctv", "f32")
	r.refused(t, 1, "keys and values", "cannot allocate memory")
}

// Every command that reads a model refuses hostile files in a line.
func TestHostileFilesAreRefused(t *testing.T) {
	t.Parallel()
	files := extract(t, testdata.Path(t, "hostile/bitnet-rs-gguf-fuzz.tar.zst"), t.TempDir())
	if len(files) < 200 {
		t.Fatalf("only %d files in the archive", len(files))
	}
	more, err := filepath.Glob(testdata.Path(t, "hostile/ik-quantize-bad-rows") + "/*.gguf")
	if err != nil || len(more) == 0 {
		t.Fatalf("%d files: %v", len(more), err)
	}
	refuse(t, append(files, more...)...)
}

// Models of which one part is damaged: files that fuzzers make from nothing end at their first bytes.
func TestChangedModelsAreRefused(t *testing.T) {
	f, err := gguf.Parse(demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	name, err := f.Str("general.architecture")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, change := range []struct {
		key   string
		value any
	}{
		{"tokenizer.ggml.token_type", []int32{2, 3}}, {"tokenizer.ggml.tokens", []string{"<unk>"}}, {"tokenizer.ggml.model", nil},
		{"tokenizer.ggml.eos_token_id", uint32(1 << 31)}, {name + ".block_count", uint32(0)}, {name + ".block_count", nil},
		{name + ".block_count", uint32(1 << 31)}, {name + ".attention.head_count", uint32(0)}, {name + ".attention.head_count", []int32{8}},
		{name + ".embedding_length", uint32(0)}, {name + ".context_length", "x"}, {"general.architecture", "laguna"},
		{"general.architecture", "grovemoe"}, {"general.architecture", uint32(7)},
	} {
		paths = append(paths, changedDemo(t, map[string]any{change.key: change.value}))
	}
	refuse(t, paths...)
}

// refuse has the commands that read models try files that are none: those that run one refuse it, the others may find
// something to say of it. Two run at a time.
func refuse(t *testing.T, files ...string) {
	t.Helper()
	next := make(chan []string)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for some := range next {
				if t.Failed() {
					continue
				}
				c := startCommands(t)
				for _, file := range some {
					if c.refuse(file); t.Failed() {
						break
					}
				}
				c.end()
			}
		})
	}
	for some := range slices.Chunk(files, 16) { // cobra keeps the flags of each command line to the end of a process
		next <- some
	}
	close(next)
	wait.Wait()
}

// refuse has the commands try a file.
func (c *commands) refuse(file string) {
	for _, args := range [][]string{
		{"run", "-m", file, "-p", "x", "-n", "1"}, {"serve", "-m", file, "--port", "0"}, {"tokenize", "-m", file, "-p", "x"},
		{"inspect", file}, {"quantize", file, file + ".out", "Q8_0"},
	} {
		r, ok := c.run(args)
		says := slices.Contains([]string{"tokenize", "inspect", "quantize"}, args[0])
		if ok && says && r.code == 0 && !strings.Contains(r.stderr, "goroutine") {
			continue // a file without tensors is valid, and a vocabulary may be whole where a model is not
		}
		if ok {
			r.refused(c.t, 1)
		}
		if c.t.Failed() {
			c.t.Errorf("%q", args)
			return
		}
	}
}

// extract unpacks the regular files of an archive into dir and returns their
// paths.
func extract(t *testing.T, archive, dir string) []string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprintf("%03d.gguf", len(names)))
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
}

func TestDamagedModelsAreRefused(t *testing.T) {
	whole, err := os.ReadFile(modelPath(t, "stories260K-f32.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := gguf.Parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	tensor, ok := file.Tensor("blk.0.ffn_up.weight")
	if !ok {
		t.Fatal("no tensor to damage")
	}
	patched := func(at uint64, b []byte) []byte {
		c := append([]byte(nil), whole...)
		copy(c[at:], b)
		return c
	}
	nan := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	rename := func(from, to string) []byte { // of the same length
		c := []byte(strings.Replace(string(whole), from, to, 1))
		if len(c) != len(whole) || string(c) == string(whole) {
			t.Fatalf("%q cannot become %q", from, to)
		}
		return c
	}
	for _, test := range []struct {
		name  string
		bytes []byte
		words []string
	}{
		{"empty", nil, []string{"empty"}},
		{"cut in its magic", whole[:3], nil},
		{"cut in its metadata", whole[:1000], nil},
		{"cut in its data", whole[:len(whole)-1], nil},
		{"another magic", patched(0, []byte("GGML")), nil},
		{"another version", patched(4, []byte{9, 0, 0, 0}), []string{"9"}},
		{"2^63 tensors", patched(8, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}), nil},
		{"2^63 keys", patched(16, []byte{0, 0, 0, 0, 0, 0, 0, 0x80}), nil},
		{"a weight that is no number", patched(tensor.Offset+400, nan), []string{"blk.0.ffn_up.weight"}},
		{"a tensor missing", rename("blk.0.ffn_up.weight", "blk.0.ffn_xx.weight"), []string{"blk.0.ffn_up.weight"}},
		{"fewer rows than tokens", patched(uint64(strings.Index(string(whole), "token_embd.weight")+len("token_embd.weight")+4+8), []byte{0xff, 1}), []string{"512 tokens", "511 rows", "token_embd.weight"}},
		{"unsupported type", patched(uint64(strings.Index(string(whole), "blk.0.ffn_up.weight")+len("blk.0.ffn_up.weight")+4+2*8), []byte{byte(gguf.I32)}), []string{"blk.0.ffn_up.weight", "I32", "Q4_K"}},
		{"a key missing", rename("llama.block_count", "llama.block_coumt"), []string{"llama.block_count"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "damaged.gguf")
			if err := os.WriteFile(path, test.bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			r := modestly(t, "run", "-m", path, "-p", "x", "-n", "1")
			r.refused(t, 1, append(test.words, "damaged.gguf")...)
		})
	}
}
