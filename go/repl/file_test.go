package repl

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-llm/quern/go/chat"
)

func message(role, text string) chat.Message {
	return chat.Message{Role: role, Content: chat.Text(text)}
}

var aTalk = conversation{system: "Be brief.", messages: []chat.Message{
	message("user", "one\n\"two\" <b> é \x00"),
	{Role: "assistant", Content: chat.Text(""), ReasoningContent: "hm"},
	message("user", "three"),
	message("assistant", "four"),
}}

func equal(t *testing.T, got, want conversation) {
	t.Helper()
	a, err := got.format()
	if err != nil {
		t.Fatal(err)
	}
	b, err := want.format()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("got %s\nwant %s", a, b)
	}
}

func TestConversationsComeBackAsTheyWereSaved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "talk.json")
	if err := aTalk.save(name, false); err != nil {
		t.Fatal(err)
	}
	got, whole, err := load(name)
	if err != nil || !whole {
		t.Fatal(whole, err)
	}
	equal(t, got, aTalk)
	if got.system != "Be brief." || len(got.messages) != 4 || got.messages[1].ReasoningContent != "hm" {
		t.Errorf("got %+v", got)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v and %v, want a file for nobody else", info, err)
	}
}

func TestSavingReplacesNothingUnasked(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "talk.json")
	if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := aTalk.save(name, false); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("got %v", err)
	}
	if got, _ := os.ReadFile(name); string(got) != "mine" {
		t.Errorf("the file is %q now", got)
	}
	if err := aTalk.save(name, true); err != nil {
		t.Error(err)
	}
	if _, _, err := load(name); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name, []byte(`{"model": "x", "messages": [{"role": "user", "content": "hi"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, whole, err := load(name); err != nil || whole {
		t.Errorf("of a request: %v, %v", whole, err)
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	if err := aTalk.save(link, true); err != nil {
		t.Error(err)
	}
	info, err := os.Lstat(name)
	if _, whole, loaded := load(name); loaded != nil || !whole || err != nil || info.Mode() != 0o644 {
		t.Errorf("through a link: %v, %v, %v, %v", whole, loaded, info, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{dir, pipe, filepath.Join(dir, "none", "talk.json"), filepath.Join(name, "talk.json")} {
		if err := aTalk.save(bad, true); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: got %v, want an error that names it", bad, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*.tmp")); left != nil {
		t.Errorf("%v are left behind", left)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want string }{ // want: part of the error, or the messages with their roles
		{`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"}]}`, "s|user:u|assistant:a"},
		{`{"model":"x","messages":[{"role":"user","content":[{"type":"text","text":"u"},{"type":"text","text":"v"}]}],"stream":true}`, "|user:u\nv"},
		{`{"messages":[{"role":"developer","content":"s"}]}`, "s"},
		{`{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":""}]}`, "|user:u|assistant:"},
		{``, "unexpected end"},
		{`[]`, `want {"messages"`},
		{`{"messages":{}}`, `want {"messages"`},
		{`{"messages":[]}`, "no messages"},
		{`{}`, "no messages"},
		{`null`, "no messages"},
		{`{"messages":[{"role":"tool","content":"x"}]}`, "messages[0] answers a call, want one before it"},
		{`{"messages":[{"role":"user","content":"x"},{"role":"tool","content":"x"}]}`, "messages[1] answers a call"},
		{`{"messages":[{"role":"critic","content":"x"}]}`, `messages[0] has the role "critic", want user`},
		{`{"messages":[{"role":"user","content":"u"},{"role":"system","content":"x"}]}`, `messages[1] has the role "system"`},
		{`{"messages":[{"content":"x"}]}`, `messages[0] has the role ""`},
		{`{"messages":[{"role":"user"}]}`, "messages[0] has no content"},
		{`{"messages":[{"role":"user","content":null}]}`, "messages[0] has no content"},
		{`{"messages":[{"role":"user","content":[]}]}`, "messages[0] has no content"},
		{`{"messages":[{"role":"user","content":5}]}`, "content must be a string"},
		{`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, "has no object image_url"},
		{`{"messages":[{"role":"user","content":"u"}]} more`, "after top-level value"},
		{`{"messages":` + strings.Repeat("[", 1e6), "depth"},
	} {
		got, err := parse([]byte(c.in))
		text := got.system
		for _, m := range got.messages {
			text += "|" + m.Role + ":" + m.Content.String()
		}
		if err != nil {
			text = err.Error()
		}
		if err == nil && text != c.want || err != nil && !strings.Contains(text, c.want) {
			t.Errorf("%.60s: got %q, want %q", c.in, text, c.want)
		}
	}
}

func TestALongHistoryLosesItsOldestHalf(t *testing.T) {
	name := filepath.Join(t.TempDir(), "quern", "history")
	past, err := openHistory(name)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 1<<10)
	for i := range maxHistory >> 10 {
		if _, err := past.Write(fmt.Sprint(i, line)); err != nil { // it keeps no line that is the last one again
			t.Fatal(err)
		}
	}
	if _, err := past.Write("the last"); err != nil {
		t.Fatal(err)
	}
	past, err = openHistory(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() > maxHistory/2 || info.Size() < maxHistory/2-4<<10 || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if got, err := past.GetLine(past.Len() - 1); err != nil || got != "the last" {
		t.Errorf("the last line is %q, %v", got, err)
	}
	if got, err := past.GetLine(0); err != nil || !strings.HasSuffix(got, line) || strings.HasPrefix(got, "0x") {
		t.Errorf("the first line is %q, %v", got, err)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long.json")
	if err := os.WriteFile(long, bytes.Repeat([]byte(" "), maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{long: "more than 16 MiB", dir: "no file", filepath.Join(dir, "none"): "no such file"} {
		if _, _, err := load(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// What is read from a stranger's file is a conversation, and comes back the same.
func FuzzParse(f *testing.F) {
	data, err := aTalk.format()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"u"}],"name":"n"}]}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			return
		}
		for _, m := range c.messages {
			if m.Role != "user" && m.Role != "assistant" && m.Role != "tool" {
				t.Fatalf("a message has the role %q", m.Role)
			}
		}
		saved, err := c.format()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(saved)
		if err != nil {
			t.Fatalf("%v, of %s", err, saved)
		}
		equal(t, again, c)
	})
}
