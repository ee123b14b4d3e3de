package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/tools"
)

func TestMain(m *testing.M) {
	tools.Enter()
	os.Exit(m.Run())
}

// box returns all tools in a new folder; the test is skipped where there is no sandbox.
func box(t *testing.T) *tools.Box {
	t.Helper()
	dir := t.TempDir()
	if _, err := tools.Open(dir, nil); err != nil {
		t.Skip(err)
	}
	b, err := tools.Open(dir, []string{tools.All})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// do calls a tool, and returns its answer as JSON.
func do(t *testing.T, b *tools.Box, c tools.Call, params string) string {
	t.Helper()
	c.Params = json.RawMessage(params)
	answer, err := b.Do(t.Context(), c)
	if err != nil {
		t.Fatalf("%s %s: %v", c.Tool, params, err)
	}
	return string(answer)
}

func has(t *testing.T, answer string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(answer, w) {
			t.Errorf("%s, want %s in it", answer, w)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	b := box(t)
	call := func(tool, params string) string { t.Helper(); return do(t, b, tools.Call{Tool: tool}, params) }
	has(t, call("write_file", `{"path":"a/b.txt","content":"one\ntwo\nthree\n"}`), `"file written successfully"`, `"bytes":14`)
	has(t, call("read_file", `{"path":"a/b.txt"}`), `"plain_text_response":"one\ntwo\nthree\n"`)
	has(t, call("read_file", `{"path":"~/a/b.txt","start_line":2,"end_line":2,"append_loc":true}`), `"2→two\n"`)
	has(t, do(t, b, tools.Call{Tool: "read_file", Base64: true}, `{"path":"a/b.txt"}`), `"base64":"b25lCnR3bwp0aHJlZQo="`, `"size_bytes":14`)
	has(t, call("edit_file", `{"path":"a/b.txt","edits":[{"old_text":"three\n","new_text":"3\n"},{"old_text":"one","new_text":"1"}]}`), `"edits_applied":2`)
	has(t, do(t, b, tools.Call{Tool: "read_file", Dir: "a"}, `{"path":"b.txt"}`), `"1\ntwo\n3\n"`)
	for edits, want := range map[string]string{
		`[]`: "at least one", `[{"old_text":"","new_text":"x"}]`: "empty", `[{"old_text":"nine","new_text":"x"}]`: "is not in",
		`[{"old_text":"\n","new_text":"x"}]`: "unique", `[{"old_text":"two","new_text":"two"}]`: "the old ones",
		`[{"old_text":"1\ntw","new_text":"x"},{"old_text":"two","new_text":"y"}]`: "overlap",
	} {
		has(t, call("edit_file", `{"path":"a/b.txt","edits":`+edits+`}`), `"error"`, want)
	}
	// A file keeps its mode, and nothing is left beside it; where there is no place for the new one, the old one stays.
	path := filepath.Join(b.Dir(), "a", "b.txt")
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	has(t, call("write_file", `{"path":"a/b.txt","content":"new"}`), `"bytes":3`)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o666 {
		t.Errorf("the mode is %v, %v", info, err)
	}
	if all, err := os.ReadDir(filepath.Join(b.Dir(), "a")); err != nil || len(all) != 1 {
		t.Errorf("the folder has %v, %v", all, err)
	}
	has(t, call("write_file", `{"path":"a","content":"x"}`), `"error"`, "it is no file")
	has(t, call("get_info", `{}`), `"cwd":"`+b.Dir()+`"`)
	has(t, call("read_file", `{"path":"none"}`), `"error":"cannot open none`)
	has(t, call("read_file", `{"path":"a"}`), `"error"`, "it is no file")
}

func TestSearches(t *testing.T) {
	t.Parallel()
	b := box(t)
	for name, text := range map[string]string{"top.txt": "Red fish\nblue fish\n", "a/mid.txt": "green", "a/b/deep.go": "package deep\n// red\n",
		"build/made.txt": "red", "raw.bin": "red\x00"} {
		path := filepath.Join(b.Dir(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(b.Dir(), filepath.Join(b.Dir(), "again")); err != nil {
		t.Fatal(err)
	}
	call := func(tool, params string) string { t.Helper(); return do(t, b, tools.Call{Tool: tool}, params) }
	for params, want := range map[string]string{
		`{"path":"."}`: "a/b/deep.go|a/mid.txt|raw.bin|top.txt", `{"path":".","max_depth":1}`: "raw.bin|top.txt",
		`{"path":".","include":"*.txt"}`: "a/mid.txt|top.txt", `{"path":".","include":"a/**"}`: "a/b/deep.go|a/mid.txt",
		`{"path":".","include":"**/b/*"}`: "a/b/deep.go", `{"path":".","exclude":"*.???"}`: "a/b/deep.go",
		`{"path":".","type":"dir"}`: "a|a/b|build", `{"path":"a","type":"all"}`: "b|b/deep.go|mid.txt",
	} {
		var r struct {
			Entries []struct{ Path string } `json:"entries"`
		}
		if err := json.Unmarshal([]byte(call("file_glob_search", params)), &r); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range r.Entries {
			got = append(got, e.Path)
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%s: %s, want %s", params, s, want)
		}
	}
	has(t, call("file_glob_search", `{"path":".","limit":1}`), "Total matches: 4", "the first 1")
	has(t, call("file_glob_search", `{"path":".","type":"cat"}`), `"error":"invalid type`)
	has(t, call("file_glob_search", `{"path":".","limit":0}`), `"error":"invalid limit`)
	has(t, call("file_glob_search", `{"path":"top.txt"}`), `"error"`, "no folder")
	has(t, call("grep_search", `{"path":".","pattern":"(?i)RED"}`), `a/b/deep.go:// red\ntop.txt:Red fish`, "Total matches: 2")
	has(t, call("grep_search", `{"path":"top.txt","pattern":"^blue","context_lines":1}`), `top.txt-1-Red fish\ntop.txt:2:blue fish\n--`)
	// Lines around what is found are shown once, and not more than a model can read.
	if err := os.WriteFile(filepath.Join(b.Dir(), "many"), []byte(strings.Repeat("a line that is found\n", 90)), 0o644); err != nil {
		t.Fatal(err)
	}
	answer := call("grep_search", `{"path":"many","pattern":"found","context_lines":100}`)
	has(t, answer, "Total matches: 90")
	if n := strings.Count(answer, "found"); n != 90 {
		t.Errorf("%d lines of 90 are shown", n)
	}
	if err := os.WriteFile(filepath.Join(b.Dir(), "wide"), []byte(strings.Repeat(strings.Repeat("w", 400)+"\n", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	answer = call("grep_search", `{"path":"wide","pattern":"w","context_lines":100}`)
	has(t, answer, "[not all was searched")
	if len(answer) > 17<<10 {
		t.Errorf("an answer of %d bytes", len(answer))
	}
	has(t, call("grep_search", `{"path":".","pattern":"d.*p","literal":true}`), "Total matches: 0")
	has(t, call("grep_search", `{"path":".","pattern":"("}`), `"error":"invalid regular expression`)
}

// A process of a tool reaches nothing but the folder: the sandbox holds where no check of this package is.
func TestSandbox(t *testing.T) {
	t.Parallel()
	b := box(t)
	sh := func(command string) string {
		t.Helper()
		params, _ := json.Marshal(map[string]any{"command": command, "timeout": 20})
		return do(t, b, tools.Call{Tool: "exec_shell_command"}, string(params))
	}
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("treasure"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{secret, "../" + filepath.Base(outside) + "/secret", "/etc/shadow", "/proc/1/environ"} {
		has(t, do(t, b, tools.Call{Tool: "read_file"}, fmt.Sprintf(`{"path":%q}`, path)), `"error"`, "outside")
	}
	if err := os.Symlink(outside, filepath.Join(b.Dir(), "door")); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"read_file", `{"path":"door/secret"}`}, {"write_file", `{"path":"door/new","content":"x"}`},
		{"grep_search", `{"path":"door","pattern":"t"}`}} {
		if answer := do(t, b, tools.Call{Tool: c[0]}, c[1]); !strings.Contains(answer, `"error"`) || strings.Contains(answer, "treasure") {
			t.Errorf("through a link: %s", answer)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	for command, what := range map[string]string{
		"cat " + secret:                             "it reads a file outside",
		"echo x > " + outside + "/new":              "it writes a file outside",
		"cat door/secret":                           "it reads through a link",
		"mv " + secret + " .":                       "it moves a file in",
		"ln " + secret + " link":                    "it links a file",
		"rm -f " + secret + "; test ! -e " + secret: "it removes a file",
		"ls /root /home /proc/1 2>/dev/null":        "it lists folders",
		fmt.Sprintf("kill -0 %d", os.Getpid()):      "it may signal this process",
		"chmod 777 " + secret:                       "it changes who may read a file",
		"touch -d 2000-01-01 " + secret:             "it changes the time of a file",
		"mknod dev c 1 3":                           "it makes a device",
		"setsid sleep 0":                            "it leaves its group",
		"unshare -r true":                           "it makes a namespace",
		fmt.Sprintf("python3 -c \"import socket; socket.create_connection(('127.0.0.1', %d))\" || perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0) or exit 1' || bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d'", port, port): "it has a network",
	} {
		if answer := sh(command); strings.Contains(answer, "[exit code: 0]") || strings.Contains(answer, "treasure") {
			t.Errorf("%s: %s: %s", what, command, answer)
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "treasure" {
		t.Errorf("the file outside is %q, %v", data, err)
	}
	has(t, sh("echo hello > new; cat new; pwd; mkdir d; mv new d; ls d; echo $HOME"), `hello\n`+b.Dir()+`\nnew\n`+b.Dir(), "[exit code: 0]")
	has(t, sh("env | cut -d= -f1 | sort | tr '\\n' ' '"), "HOME LANG")
	if answer := sh("env"); strings.Contains(answer, "GOPATH") || strings.Contains(answer, "USER=") {
		t.Errorf("the environment: %s", answer)
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	b := box(t)
	call := func(params string) string {
		t.Helper()
		return do(t, b, tools.Call{Tool: "exec_shell_command"}, params)
	}
	has(t, call(`{"command":"echo out; echo err >&2; exit 3"}`), `"out\nerr\n\n[exit code: 3]"`)
	has(t, call(`{"command":"yes","max_output_size":4,"timeout":1}`), `"y\ny\n\n[output truncated]`, "due to timed out")
	// What stays in the background ends with the call.
	end := filepath.Join(b.Dir(), "end")
	if out, err := exec.Command("mkfifo", end).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	reads, err := os.OpenFile(end, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	has(t, call(`{"command":"exec 9>end; sleep 1000 >&9 2>&1 & echo here; echo held >&9"}`), `here`)
	if err := reads.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(reads); err != nil || string(data) != "held\n" {
		t.Errorf("what was in the background holds its file: %q, %v", data, err)
	}
	var got []string
	c := tools.Call{Tool: "exec_shell_command", Params: json.RawMessage(`{"command":"printf 'a\\303'; printf '\\251b'"}`),
		Chunk: func(s string) error { got = append(got, s); return nil }}
	if _, err := b.Do(t.Context(), c); err != nil || strings.Join(got, "") != "aéb\n[exit code: 0]" {
		t.Errorf("chunks %q, %v", got, err)
	}
	gone := errors.New("gone")
	c.Params, c.Chunk = json.RawMessage(`{"command":"echo; sleep 1000","timeout":60}`), func(string) error { return gone }
	if _, err := b.Do(t.Context(), c); !errors.Is(err, gone) {
		t.Errorf("a client that left: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.Do(ctx, tools.Call{Tool: "exec_shell_command", Params: json.RawMessage(`{"command":"sleep 1000"}`)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request that ended: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	b := box(t)
	var wrong *tools.ParamError
	for _, c := range []tools.Call{
		{Tool: "read_file"}, {Tool: "read_file", Params: json.RawMessage(`[]`)}, {Tool: "read_file", Params: json.RawMessage(`{"path":7}`)},
		{Tool: "write_file", Params: json.RawMessage(`{"path":"x"}`)}, {Tool: "grep_search", Params: json.RawMessage(`{"path":"x"}`)},
		{Tool: "exec_shell_command"}, {Tool: "exec_shell_command", Params: json.RawMessage(`{"command":"a\u0000b"}`)},
		{Tool: "exec_shell_command", Params: json.RawMessage(`{"command":"a","timeout":0}`)},
		{Tool: "edit_file", Params: json.RawMessage(`{"path":"x","edits":{}}`)},
		{Tool: "get_info", Dir: "/"}, {Tool: "get_info", Dir: ".."}, {Tool: "get_info", Dir: "none"},
	} {
		if _, err := b.Do(t.Context(), c); !errors.As(err, &wrong) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := b.Do(t.Context(), tools.Call{Tool: "rm"}); !errors.Is(err, tools.ErrUnknown) {
		t.Errorf("an unknown tool: %v", err)
	}
	if _, err := b.Do(t.Context(), tools.Call{Tool: "get_info", Chunk: func(string) error { return nil }}); !errors.Is(err, tools.ErrNoStream) {
		t.Errorf("a stream: %v", err)
	}
	for _, dir := range []string{"/", filepath.Join(b.Dir(), "none"), os.Args[0]} {
		if _, err := tools.Open(dir, nil); err == nil {
			t.Errorf("%s is taken", dir)
		}
	}
	if _, err := tools.Open(b.Dir(), []string{"rm"}); err == nil || !strings.Contains(err.Error(), "read_file") {
		t.Errorf("an unknown name: %v", err)
	}
}
