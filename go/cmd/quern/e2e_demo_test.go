package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// noted is the one line that those see who name no model.
const noted = "quern: " + demoNote + "\n"

// Without -m there is the demo, which says what it is; with it, it says nothing.
func TestDemoWithoutAModel(t *testing.T) {
	want := succeed(t, story()...)
	r := quern(t, "run", "Once upon a time", "--temp", "0", "-n", "16")
	if r.stdout != want || r.stderr != noted || r.code != 0 {
		t.Errorf("run: code %d, %q and %q; want %q and %q", r.code, r.stdout, r.stderr, want, noted)
	}
	r = quern(t, "bench", "-p", "4", "-n", "0", "-r", "1", "--no-roofline", "-o", "json")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil || len(rows) != 1 || rows[0]["model_filename"] != demo.Name || r.stderr != noted {
		t.Errorf("bench: %v, %q and %q", err, r.stdout, r.stderr)
	}
	r = quern(t, "bench", "-m", demo.Name, "--curve", "-p", "1,2", "-r", "1", "--no-roofline", "-o", "csv")
	if lines := strings.Count(r.stdout, "\n"); lines != 3 || r.stderr != "" {
		t.Errorf("bench --curve: %d lines and %q", lines, r.stderr)
	}
	s := serve(t, "")
	if !s.logged(`"message":"ready"`) || strings.Count(s.log.String(), demoNote) != 1 {
		t.Errorf("serve: its log has %s", s.log)
	}
	s = serve(t, demo.Name)
	if !s.logged(`"message":"ready"`) || strings.Contains(s.log.String(), demoNote) {
		t.Errorf("serve -m demo: its log has %s", s.log)
	}
}

// Who starts it by hand, with nothing to continue, gets a story from the beginning.
func TestDemoOnATerminal(t *testing.T) {
	const prompt = "no text"
	for _, tt := range []struct{ model, want string }{{demo.Name, told(t, "")}, {"./other.gguf", prompt}} {
		cmd := exec.Command(program, "run", "-m", tt.model, "--temp", "0", "-n", "16")
		cmd.Env = cleanEnvironment()
		cmd.Stdin = idleTerminal(t)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		got := stdout.String()
		if tt.want == prompt && (err == nil || got != "" || !strings.Contains(stderr.String(), prompt)) {
			t.Errorf("%s: %v, %q and %q; want an error with %q", tt.model, err, got, &stderr, prompt)
		}
		if tt.want != prompt && (err != nil || got == "" || !strings.HasPrefix(tt.want, got)) {
			t.Errorf("%s: %v, %q and %q; want the beginning of %q", tt.model, err, got, &stderr, tt.want)
		}
	}
}

// idleTerminal returns one at which nobody types.
func idleTerminal(t *testing.T) *os.File {
	t.Helper()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return theirs
}

// What is exported is the same file, which says the same.
func TestExportDemo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "exported.gguf")
	r := quern(t, "export-demo", path)
	if r.code != 0 || r.stdout != "" || !strings.HasPrefix(r.stderr, path+": ") {
		t.Fatalf("code %d, %q and %q", r.code, r.stdout, r.stderr)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b, demo.GGUF()) {
		t.Fatalf("%d bytes that differ from the %d inside, %v", len(b), len(demo.GGUF()), err)
	}
	if got := succeed(t, "export-demo", "-"); got != string(b) {
		t.Errorf("standard output has %d other bytes", len(got))
	}
	want := succeed(t, story()...)
	for _, more := range [][]string{nil, {"--weights", "mapped"}} {
		if got := succeed(t, append(story(more...), "-m", path)...); got != want {
			t.Errorf("%v: got %q, want %q", more, got, want)
		}
	}
	quern(t, "export-demo", path).refused(t, 1, path, "exists", "--force")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	quern(t, "export-demo", path, "--force")
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, demo.GGUF()) {
		t.Errorf("--force left %d bytes, %v", len(b), err)
	}
}

// The model that names what is in a picture is two files, of which one is found beside the other.
func TestExportVisionDemo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eyes.gguf")
	r := quern(t, "export-demo", "--vision", path)
	beside := gguf.ProjectorBeside(path)
	if r.code != 0 || r.stdout != "" || strings.Count(r.stderr, "\n") != 2 || filepath.Base(beside) != "mmproj-eyes.gguf" {
		t.Fatalf("code %d, %q, %q, and beside it %q", r.code, r.stdout, r.stderr, beside)
	}
	for path, want := range map[string][]byte{path: demo.File(demo.Vision), beside: demo.Projector(demo.Vision)} {
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s: %d bytes that differ from the %d inside, %v", path, len(b), len(want), err)
		}
	}
	quern(t, "export-demo", "--vision", path).refused(t, 1, path, "exists", "--force")
	quern(t, "export-demo", "--vision", "-").refused(t, exitUsage, "two files")
}

// Without -m, a picture is shown to the model that sees, which says what it is.
func TestVisionDemo(t *testing.T) {
	im := image.NewRGBA(image.Rect(0, 0, 120, 120))
	for i := range 120 * 120 {
		x, y := i%120, i/120
		c := color.RGBA{255, 255, 255, 255}
		if (x-60)*(x-60)+(y-60)*(y-60) < 40*40 {
			c = color.RGBA{255, 0, 0, 255}
		}
		im.SetRGBA(x, y, c)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, im); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "circle.png")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r := quern(t, "run", "--image", path)
	if strings.TrimSpace(r.stdout) != "A red circle." || r.stderr != "quern: "+visionNote+"\n" || r.code != 0 {
		t.Errorf("code %d, %q and %q", r.code, r.stdout, r.stderr)
	}
	if got := succeed(t, "run", "-m", demo.Vision, "--image", path, "What colour is it?"); strings.TrimSpace(got) != "Red." {
		t.Errorf("its colour is %q", got)
	}
	if got := succeed(t, "chat", "-m", demo.Vision, "--image", path, "-p", "What is this?"); !strings.Contains(got, "A red circle.") {
		t.Errorf("chat says %q", got)
	}
}

// The same demo is shown videos: folders with frames, and animations.
func TestDemoSeesVideos(t *testing.T) {
	dir := t.TempDir()
	frames := filepath.Join(dir, "frames")
	if err := os.Mkdir(frames, 0o700); err != nil {
		t.Fatal(err)
	}
	square := image.NewPaletted(image.Rect(0, 0, 96, 96), color.Palette{color.White, color.RGBA{220, 30, 30, 255}})
	for i := range 96 * 96 {
		if x, y := i%96, i/96; x >= 20 && x < 76 && y >= 20 && y < 76 {
			square.SetColorIndex(x, y, 1)
		}
	}
	var still, moving bytes.Buffer
	if err := errors.Join(png.Encode(&still, square), gif.EncodeAll(&moving, &gif.GIF{
		Image: []*image.Paletted{square, square, square}, Delay: []int{50, 50, 50}})); err != nil {
		t.Fatal(err)
	}
	animation := filepath.Join(dir, "a.gif")
	for name, data := range map[string][]byte{
		filepath.Join(frames, "1.png"): still.Bytes(), filepath.Join(frames, "2.png"): still.Bytes(),
		filepath.Join(frames, "3.png"): still.Bytes(), animation: moving.Bytes(),
	} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(command string, args ...string) string {
		return strings.TrimSpace(succeed(t, append(append([]string{command, "-m", demo.Vision, "--temp", "0", "-n", "12"}, args...), "-p", "What colour is it?")...))
	}
	folder, whole := ask("run", "--video", frames, "--video-fps", "2"), ask("run", "--video", animation)
	if !strings.Contains(folder, "ed") || folder != whole { // of frames with the same times
		t.Errorf("frames %q, an animation of them %q", folder, whole)
	}
	if got := ask("chat", "--video", frames); !strings.Contains(got, folder) {
		t.Errorf("chat says %q, want %q", got, folder)
	}
	quern(t, "run", "--video", frames+"/1.png", "x").refused(t, 1, "--video: ", "is a picture")
	quern(t, "run", "-m", demo.Name, "--video", frames, "-p", "x").refused(t, 1, "--video: ", "takes no video")
	quern(t, "run", "--video", frames, "--video-fps", "0", "x").refused(t, 2, "--video-fps")
}

// It runs where not a byte can be written, and what it reads lies in the pages of
// the program and in no other file.
func TestDemoNeedsNoFile(t *testing.T) {
	want := succeed(t, story()...)
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -f 0 && exec "$0" "$@"`, program}, story("--weights", "mapped")...)...)
	cmd.Env = append(cleanEnvironment(), "TMPDIR=/nonexistent", "HOME=/nonexistent")
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
	s := serve(t, demo.Name, "--weights", "mapped")
	s.post("/completion", `{"prompt":"Once","n_predict":2}`)
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	inside := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 6 || strings.HasPrefix(words[5], "[") {
			continue // memory that is no file's, the stack and the like
		}
		inside = inside || words[5] == program
		if words[5] != program && !strings.Contains(words[5], ".so") {
			t.Errorf("it has mapped %s", lines.Text())
		}
	}
	if !inside {
		t.Error("it has not even mapped itself")
	}
}

// Clients see a model with a name, and chat with it: a stream is the whole answer
// in pieces, whoever else asks.
func TestDemoChats(t *testing.T) {
	s := serve(t, demo.Name)
	r, err := s.client.Get("http://quern/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	var models struct {
		Data []struct {
			ID      string
			Aliases []string
		}
	}
	err = json.NewDecoder(r.Body).Decode(&models)
	r.Body.Close()
	if err != nil || fmt.Sprint(models.Data) != "[{demo []}]" {
		t.Errorf("models %+v, %v", models, err)
	}
	var wg sync.WaitGroup
	for _, question := range []string{"Tell me a story about a bird.", "Hello!"} {
		want := told(t, question)
		const body = `{"messages":[{"role":"user","content":%q}],"temperature":0,"max_tokens":120,"stream":%t}`
		for range 3 {
			wg.Go(func() {
				status, v := s.post("/v1/chat/completions", fmt.Sprintf(body, question, false))
				whole, finish := answer(v, "message")
				if status != 200 || whole == "" || finish == "" || !strings.HasPrefix(want, whole) {
					t.Errorf("%q: %d %q and %q, want the beginning of %q", question, status, whole, finish, want)
				}
				pieces, last := s.streamed(fmt.Sprintf(body, question, true))
				if text := strings.Join(pieces, ""); text != whole || last != finish || len(pieces) < 2 {
					t.Errorf("%q: streamed %q in %d pieces and %q, whole %q and %q", question, text, len(pieces), last, whole, finish)
				}
			})
		}
	}
	wg.Wait()
}

// answer returns what a chat completion, or an event of one, has of the answer.
func answer(v map[string]any, part string) (text, finish string) {
	choices, _ := v["choices"].([]any)
	if len(choices) == 0 {
		return "", ""
	}
	choice := choices[0].(map[string]any)
	finish, _ = choice["finish_reason"].(string)
	if message, ok := choice[part].(map[string]any); ok {
		text, _ = message["content"].(string)
	}
	return text, finish
}

// streamed returns the pieces of an answer, and why it ended.
func (s *service) streamed(body string) (pieces []string, finish string) {
	r, err := s.client.Post("http://quern/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return nil, ""
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		var v map[string]any
		if data, ok := strings.CutPrefix(lines.Text(), "data: {"); !ok || json.Unmarshal([]byte("{"+data), &v) != nil {
			continue
		}
		text, end := answer(v, "delta")
		if text != "" {
			pieces = append(pieces, text)
		}
		if end != "" {
			finish = end
		}
	}
	return pieces, finish
}

func TestInspectAndTokenizeDemo(t *testing.T) {
	var in inspection
	if err := json.Unmarshal([]byte(succeed(t, "inspect", "--json", demo.Name)), &in); err != nil {
		t.Fatal(err)
	}
	if in.Path != demo.Name || in.FileBytes != uint64(len(demo.GGUF())) || in.Memory == nil || len(in.Tensors) < 10 {
		t.Errorf("%s of %d bytes, %d tensors, memory %v", in.Path, in.FileBytes, len(in.Tensors), in.Memory)
	}
	const text = "Once upon a time, there was a naïve 🦙."
	ids := succeed(t, "tokenize", "-m", demo.Name, "--ids", "-p", text)
	if got := succeed(t, "tokenize", "-m", demo.Name, "--detok", "-p", ids); got != text {
		t.Errorf("%s is %q, want %q", ids, got, text)
	}
	out := succeed(t, "perplexity", "-m", demo.Name, "-f", "../../demo/testdata/heldout.txt", "-c", "256")
	want, err := os.ReadFile("../../demo/testdata/heldout.ppl")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "PPL = "+strings.TrimSpace(string(want))+" ") {
		t.Errorf("perplexity %q, want %s", out, want)
	}
}

// A model's file says how to sample it, and flags that are given know better.
func TestSamplingOfTheModel(t *testing.T) {
	meta := metadata{"general.sampling.temp": float32(0.25), "general.sampling.top_k": int32(7), "general.sampling.min_p": "much"}
	for _, tt := range []struct {
		args []string
		want func(*sample.Params)
	}{
		{nil, func(p *sample.Params) { p.Temp, p.TopK = 0.25, 7 }},
		{[]string{"--temp", "1", "--top-p", "0.5"}, func(p *sample.Params) { p.Temp, p.TopK, p.TopP = 1, 7, 0.5 }},
	} {
		var f samplingFlags
		cmd := newVersionCommand()
		f.define(cmd.Flags())
		if err := cmd.ParseFlags(tt.args); err != nil {
			t.Fatal(err)
		}
		want := sample.Defaults()
		tt.want(&want)
		var notes []string
		got := f.forModel(meta, func(line string) { notes = append(notes, line) })
		if got != want {
			t.Errorf("%v: got %+v, want %+v", tt.args, got, want)
		}
		if len(notes) != 1 || !strings.Contains(notes[0], "min_p") {
			t.Errorf("%v: noted %q", tt.args, notes)
		}
	}
}

// And so does run: the demo, if its file said so, would be greedy by itself.
func TestRunSamplesAsTheModelSays(t *testing.T) {
	path := changedDemo(t, map[string]any{"general.sampling.temp": float32(0)})
	args := []string{"run", "-m", path, "-p", "Once upon a time", "-n", "16"}
	want := succeed(t, story()...)
	if got := succeed(t, args...); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := succeed(t, append(args, "--temp", "5", "--top-k", "0", "--top-p", "1", "--min-p", "0")...); got == want {
		t.Errorf("got %q at a temperature of 5, too", got)
	}
}

// changedDemo returns the path of a copy of the demo with other metadata: nil
// leaves a key out.
func changedDemo(t *testing.T, changes map[string]any) string {
	t.Helper()
	f, err := gguf.Parse(demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		if _, ok := changes[kv.Key]; !ok {
			w.Set(kv.Key, kv.Value)
		}
	}
	for key, value := range changes {
		if value != nil {
			w.Set(key, value)
		}
	}
	for _, x := range f.Tensors {
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	path := filepath.Join(t.TempDir(), "changed.gguf")
	if _, err := newfile.Write(path, false, 0o600, 0, w.WriteTo); err != nil {
		t.Fatal(err)
	}
	return path
}

// Tokens that the file says are never to be generated are not, whatever else is asked for.
func TestSuppressedTokens(t *testing.T) {
	f, err := gguf.Parse(demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	want := succeed(t, story()...)
	first := tok.Encode(want, tokenizer.Options{NoSpecial: true})[1] // the 0th may be joined with the prompt
	name := changedDemo(t, map[string]any{"tokenizer.ggml.suppress_tokens": []int32{-1, first, 1 << 30, first}})
	got := succeed(t, append(story(), "-m", name)...)
	if strings.Contains(got, string(tok.Piece(first, false))) || !strings.Contains(want, string(tok.Piece(first, false))) {
		t.Errorf("%q was suppressed in %q: %q", tok.Piece(first, false), want, got)
	}
	s := serve(t, "", "-m", name)
	status, r := s.post("/completion", fmt.Sprintf(`{"prompt":"Once upon a time","n_predict":16,"temperature":0,"logit_bias":[[%d,1000]],"n_probs":1,"return_tokens":true}`, first))
	if status != 200 || slices.Contains(r["tokens"].([]any), any(float64(first))) {
		t.Errorf("%d: %v", status, r["tokens"])
	}
	quern(t, "run", "-m", changedDemo(t, map[string]any{"tokenizer.ggml.suppress_tokens": "none"}), "-p", "a").refused(t, 1, "suppress_tokens")
}

type metadata map[string]any

func (m metadata) Value(key string) (any, bool) {
	v, ok := m[key]
	return v, ok
}
