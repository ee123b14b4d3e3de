package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// interrupts ends answers by keys of the console: a command's is whole up to there, and a server's goes on to its end.
func (w wine) interrupts() error {
	for _, key := range []string{"c", "break"} {
		out := filepath.Join(w.dir, "answer-"+key)
		code, err := w.press(key, out, out, "run", "-m", "demo", "-p", "Once upon a time", "-n", "-1", "--ignore-eos", "--context-shift", "--temp", "0")
		if errors.Is(err, errNoKey) && key == "break" && w.eight {
			fmt.Println("\tCtrl-Break is not tried: Wine 8 sends none, for Go's programs it is Ctrl-C")
			return nil
		}
		said, _ := os.ReadFile(out)
		if err != nil || code != 128+2 || len(bytes.TrimSpace(said)) == 0 || bytes.Contains(said, []byte("quern: ")) {
			return fmt.Errorf("%s: a command ends with %d, %v, after %q; want 130 and a part of a story", key, code, err, tail(string(said), 500))
		}
		if err := w.serverEnds(key); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// errNoKey reports that Wine cannot press a key.
var errNoKey = errors.New("the key cannot be pressed")

// press runs the program in a console, presses a key there when a file has bytes, and returns its exit code.
func (w wine) press(key, when, out string, args ...string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c, err := w.open(w.command(ctx, "press.exe", append([]string{key, windows(when), windows(out), windows(filepath.Join(w.built, "quern.exe"))}, args...)...))
	if err != nil {
		return 0, err
	}
	<-c.ended
	code := c.cmd.ProcessState.ExitCode()
	switch shown := strings.TrimSpace(c.shown()); {
	case strings.Contains(shown, "press: the key"):
		return code, errNoKey
	case shown != "" || ctx.Err() != nil:
		return code, fmt.Errorf("%v %s", ctx.Err(), shown)
	}
	return code, nil
}

// windows is a path of this machine as Windows has it.
func windows(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }

// serverEnds presses a key while a server answers.
func (w wine) serverEnds(key string) error {
	p, err := port()
	if err != nil {
		return err
	}
	when, out := filepath.Join(w.dir, "now-"+key), filepath.Join(w.dir, "server-"+key)
	type end struct {
		code int
		err  error
	}
	ended, done := end{}, make(chan struct{})
	go func() {
		defer close(done)
		ended.code, ended.err = w.press(key, when, out, "serve", "-m", "demo", "--port", p)
	}()
	err = func() error {
		s := &served{url: "http://127.0.0.1:" + p}
		if err := ready(s.url, done); err != nil {
			return err
		}
		r, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "Once upon a time", "max_tokens": 200, "temperature": 0, "stream": true}`))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		first := make([]byte, 1)
		if _, err := io.ReadFull(r.Body, first); err != nil {
			return err
		}
		if err := os.WriteFile(when, []byte("now"), 0o666); err != nil {
			return err
		}
		rest, err := io.ReadAll(r.Body)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(rest)), "data: [DONE]") {
			return fmt.Errorf("the answer ends with %v: %q", err, tail(string(rest), 300))
		}
		return nil
	}()
	_ = os.WriteFile(when, []byte("now"), 0o666) // however that went
	<-done
	if log, _ := os.ReadFile(out); err != nil || ended.err != nil || ended.code != 0 {
		return fmt.Errorf("%v, and the server ends with %d, %v: %s", err, ended.code, ended.err, tail(string(log), 2000))
	}
	return nil
}

// share reads and writes files of a network share, which for Wine is a folder of this machine.
func (w wine) share() error {
	server := filepath.Join(os.Getenv("WINEPREFIX"), "dosdevices", "unc", "quern-server")
	if err := os.MkdirAll(server, 0o777); err != nil {
		return err
	}
	defer os.RemoveAll(server)
	at := filepath.Join(w.dir, "share")
	if err := os.MkdirAll(at, 0o777); err != nil {
		return err
	}
	if err := os.Symlink(at, filepath.Join(server, "models")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(at, "prompt.txt"), []byte("Once upon a time"), 0o666); err != nil {
		return err
	}
	want, err := w.succeed("run", "-m", "demo", "-p", "Once upon a time", "-n", "12", "--temp", "0")
	if err != nil {
		return err
	}
	far := strings.Repeat(`\ещё одна папка`, 20) // its path has more than 260 characters
	if err := os.MkdirAll(filepath.Join(at, strings.ReplaceAll(far, `\`, "/")), 0o777); err != nil {
		return err
	}
	for _, top := range []string{`\\quern-server\models`, `\\?\UNC\quern-server\models`, `//quern-server/models`} {
		for _, model := range []string{top + `\m.gguf`, top + far + `\m.gguf`} {
			if _, err := w.succeed("export-demo", "--force", model); err != nil {
				return err
			}
			if got, err := w.succeed("run", "-m", model, "-f", top+`\prompt.txt`, "-n", "12", "--temp", "0"); err != nil || got != want {
				return fmt.Errorf("%s: %q, %v; want %q", model, got, err, want)
			}
		}
		for _, missing := range []string{top + `\none.gguf`, top + `\m.gguf\none.gguf`} {
			if err := w.refused([]string{"none.gguf"}, "run", "-m", missing, "-p", "x"); err != nil {
				return err
			}
		}
	}
	return w.refused([]string{`\\quern-server\other\m.gguf`}, "run", "-m", `\\quern-server\other\m.gguf`, "-p", "x")
}

// mounted mounts a file system in memory for f. Only root may: it returns whether it could.
func (w wine) mounted(name, options string, flags uintptr, f func(at string) error) (bool, error) {
	at := filepath.Join(w.dir, name)
	if err := os.MkdirAll(at, 0o777); err != nil {
		return false, err
	}
	if err := syscall.Mount("quern-wine", at, "tmpfs", flags, options); err != nil {
		fmt.Printf("\tnot done, for want of a file system of its own: mount: %v\n", err)
		return false, nil
	}
	err := f(at)
	return true, errors.Join(err, syscall.Unmount(at, syscall.MNT_DETACH))
}

// full writes to a volume that has no room.
func (w wine) full() error {
	_, err := w.mounted("full", "size=1m", 0, func(at string) error {
		out := filepath.Join(at, "out.gguf")
		for _, args := range [][]string{
			{"export-demo", out},
			{"quantize", "--allow-requantize", filepath.Join(w.dir, "whole.gguf"), out, "Q8_0"},
		} {
			if args[0] == "quantize" {
				if _, err := w.succeed("export-demo", args[2]); err != nil {
					return err
				}
			}
			if err := w.refused([]string{"full", "1.0 MB free"}, args...); err != nil {
				return err
			}
			if left, err := os.ReadDir(at); err != nil || len(left) > 0 {
				return fmt.Errorf("%q: %v are left, %v", args, left, err)
			}
		}
		// A server goes on without what it would have written.
		return w.unwritten(at, "cannot be written")
	})
	return err
}

// readOnly names folders that cannot be written.
func (w wine) readOnly() error {
	_, err := w.mounted("read only", "size=8m", syscall.MS_RDONLY, func(at string) error {
		for _, b := range []struct {
			words []string
			args  []string
		}{
			{[]string{"out.gguf"}, []string{"export-demo", filepath.Join(at, "out.gguf")}},
			{[]string{"read only"}, []string{"create", "--model-cache", at, "mario", "--from", "demo", "--system", "x"}},
			{[]string{"read only"}, []string{"serve", "-m", "demo", "--log-file", filepath.Join(at, "log.jsonl")}},
		} {
			if err := w.refused(b.words, b.args...); err != nil {
				return err
			}
		}
		// Where the cache of models is not asked for anything, it may be any folder.
		if _, err := w.succeed("run", "--model-cache", at, "-m", "demo", "-p", "x", "-n", "2"); err != nil {
			return err
		}
		return w.unwritten(at, "--cache-disk cannot be used")
	})
	return err
}

// unwritten is a server whose disk cache cannot be written, which says so and answers as it would without.
func (w wine) unwritten(at, words string) error {
	answers := make([]string, 5)
	plain, err := w.serve("-m", "demo", "-c", "1024")
	if err != nil {
		return err
	}
	err = plain.answers(answers)
	plain.kill()
	if err != nil {
		return err
	}
	s, err := w.serve("-m", "demo", "-c", "1024", "--kv-memory", "6M", "--cache-disk", filepath.Join(at, "cache"), "--cache-disk-size", "40M")
	if err != nil {
		return err
	}
	for range 2 {
		if err = s.answers(answers); err != nil {
			break
		}
	}
	s.kill()
	if err != nil {
		return err
	}
	log, err := os.ReadFile(s.log.Name())
	if n := strings.Count(string(log), words); err == nil && n != 1 {
		err = fmt.Errorf("%d lines with %q, want one: %s", n, words, log)
	}
	return err
}

// moved renames and removes a model, by Windows' own means, while a server has it. The lines of cmd.exe may have no quotes: Wine
// gives it others.
func (w wine) moved() error {
	model, other := filepath.Join(w.dir, "ёжик.gguf"), filepath.Join(w.dir, "猫.gguf")
	if _, err := w.succeed("export-demo", "--force", model); err != nil {
		return err
	}
	s, err := w.serve("-m", model, "-c", "1024")
	if err != nil {
		return err
	}
	defer s.kill()
	want := make([]string, 3)
	if err := s.answers(want); err != nil {
		return err
	}
	for _, line := range []string{
		"move /y " + windows(model) + " " + windows(other),
		"del " + windows(other),
	} {
		cmd := exec.Command(os.Getenv("WINE"), "cmd", "/c", line)
		cmd.Env = append(os.Environ(), "WINEDEBUG=-all")
		stdout, stderr, err := w.printed(cmd)
		if _, there := os.Stat(other); there != nil && w.eight { // which renames what is mapped, and removes it once that is closed
			return fmt.Errorf("after %s there is no %s: %v %s%s", line, other, err, stdout, stderr)
		}
		if err := s.answers(want); err != nil {
			return fmt.Errorf("after %s: %w: %s", line, err, s.said())
		}
	}
	s.kill()
	for deadline := time.Now().Add(time.Minute); w.eight; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(other); err != nil {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was removed, and is there after the server's end", other)
		}
	}
	return nil
}

// sets runs the program as processors with fewer instructions have it.
func (w wine) sets() error {
	args := []string{"verify", "-m", "demo"}
	want, err := w.succeed(args...)
	if err != nil {
		return err
	}
	for _, isa := range []string{"scalar", "avx2"} {
		r, err := w.quern([]string{"QUERN_ISA=" + isa}, args...)
		if err != nil || r.code != 0 || r.stdout != want {
			return fmt.Errorf("%s: code %d, %v, %q; want %q", isa, r.code, err, r.stdout, want)
		}
	}
	r, err := w.quern([]string{"QUERN_ISA=avx1024"}, args...)
	if err != nil || r.code == 0 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "avx1024") {
		return fmt.Errorf("a set that is none: code %d, %v, %q", r.code, err, r.stderr)
	}
	return nil
}

// A console is a terminal of this machine, which Wine makes one of Windows' consoles of.
type console struct {
	cmd   *exec.Cmd
	file  *os.File
	ended chan struct{}

	mu     sync.Mutex
	screen vt10x.Terminal
}

// console runs a line of cmd.exe in a console, in the folder of programs. It may have no quotes: Wine gives cmd.exe others.
func (w wine) console(line string) (*console, error) {
	cmd := exec.Command(os.Getenv("WINE"), "cmd", "/c", line)
	cmd.Env = append(os.Environ(), "WINEDEBUG=-all")
	cmd.Dir = w.built
	return w.open(cmd)
}

// open runs a command of Wine in a console.
func (w wine) open(cmd *exec.Cmd) (*console, error) {
	c := &console{cmd: cmd, ended: make(chan struct{}), screen: vt10x.New(vt10x.WithSize(160, 50))}
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	var err error
	if c.file, err = pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 50, Cols: 160}); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.ended)
		b := make([]byte, 4096)
		for {
			n, err := c.file.Read(b)
			c.mu.Lock()
			_, _ = c.screen.Write(b[:n])
			c.mu.Unlock()
			if err != nil { // the program has ended
				_ = c.cmd.Wait()
				return
			}
		}
	}()
	return c, nil
}

func (c *console) shown() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.screen.String()
}

// expect waits until the screen has a text.
func (c *console) expect(text string) error {
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(c.shown(), text) {
			return nil
		}
	}
	return fmt.Errorf("the console does not show %q, but\n%s", text, strings.TrimSpace(c.shown()))
}

func (c *console) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.file.Close()
	<-c.ended
}

// consoles prints and reads letters that the console's code page does not have, and leaves the code page as it was.
func (w wine) consoles() error {
	for _, page := range []string{"437", "1251"} {
		c, err := w.console("chcp " + page + " & quern.exe run -m ёжик-猫.gguf -p x & chcp & echo the end")
		if err != nil {
			return err
		}
		err = errors.Join(c.expect("the end"), c.expect("quern: ёжик-猫.gguf"))
		if pages := strings.Count(c.shown(), page); err == nil && pages != 2 {
			err = fmt.Errorf("the code page was %s, and is another:\n%s", page, c.shown())
		}
		c.kill()
		if err == nil {
			err = w.types(page)
		}
		if err != nil {
			return fmt.Errorf("code page %s: %w", page, err)
		}
	}
	return nil
}

// types types a message in a console of a code page.
func (w wine) types(page string) error {
	const message = "Привет, ёжик 猫 é"
	saved := filepath.Join(w.dir, "talk-"+page+".json")
	c, err := w.console("chcp " + page + " & quern.exe chat -m demo --temp 0 -n 4 & echo the end")
	if err != nil {
		return err
	}
	defer c.kill()
	for _, step := range []struct{ shows, keys string }{
		{"> ", message},
		{message, "\r"},
		{"", "/save " + windows(saved) + "\r"},
		{"", "/quit\r"},
		{"the end", ""},
	} {
		if err := c.expect(step.shows); err != nil {
			return err
		}
		if _, err := c.file.WriteString(step.keys); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(saved)
	if err != nil || !strings.Contains(string(b), message) {
		return fmt.Errorf("%s: %q, %v; want %q in it", saved, b, err, message)
	}
	return nil
}
