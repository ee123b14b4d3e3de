package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets this binary stand in for a server: QUERN_LOAD_TEST makes it
// listen on that socket instead of testing.
func TestMain(m *testing.M) {
	if socket := os.Getenv("QUERN_LOAD_TEST"); socket != "" {
		if err := serve(socket); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve answers until SIGTERM. It dies at once when the socket is called "dies",
// and at the first request when it is called "crashes".
func serve(socket string) error {
	if filepath.Base(socket) == "dies" {
		return fmt.Errorf("no such model")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"data": [{"id": "/models/fake.gguf"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case filepath.Base(socket) == "crashes":
			fmt.Fprintln(os.Stderr, "out of memory")
			os.Exit(3)
		case r.Header.Get("Authorization") != "Bearer secret":
			http.Error(w, "who are you", http.StatusUnauthorized)
		default:
			if _, ok := reads(w, r); ok {
				says(w, 5*ms, ms, ms)
			}
		}
	})
	srv := http.Server{Handler: mux}
	go func() {
		<-ctx.Done()
		srv.Close()
	}()
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// startArgs are flags that start this binary as the server.
func startArgs(t *testing.T, name string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "load") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, name)
	return []string{"--url", "unix:" + socket, "--server", fmt.Sprintf("env 'QUERN_LOAD_TEST=%s' '%s'", socket, self)}
}

// A whole run against a server of its own, with all that it leaves behind.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	lines := filepath.Join(dir, "lines")
	serverLog := filepath.Join(dir, "log")
	args := append(startArgs(t, "fake"), "--server-log", serverLog, "--requests", "12", "--rate", "200", "--bad-share", "0.2", "--intruder", "20ms:50",
		"--verify", "3", "--api-key", "it's:2=secret", "--json", lines, "--topic", "try", "--results", dir, "--allow-status", "429,503")
	c, err := parseFlags(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if err := load(t.Context(), c, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, time.Now().Format(time.DateOnly)+"-try.md"))
	if err != nil {
		t.Fatal(err)
	}
	if stdout.String() != string(page) {
		t.Errorf("shown:\n%s\nkept:\n%s", &stdout, page)
	}
	for _, want := range []string{
		"# try, ", "arrive at 200/s on average (poisson), and a prompt of 50 words every 20ms", "- model: fake.gguf\n", "- machine: ",
		"--server='env '\\''QUERN_LOAD_TEST=fake'\\'' '\\''load.test'\\'''", "--allow-status=429,503", "--api-key='it'\\''s:2=KEY'", "-try.svg)",
		"| short: TTFT |", "| short: ITL |", "| short: e2e |", "| intruder: TTFT |", "| bad: e2e |", "| whole run |", "| while busy |",
		"| stop |", "| bad body, refused |", "- peak RSS of the server: 0.", "s after SIGTERM", "- asked again alone: 3, of which 0 gave another text and 0 failed",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
	}
	for _, forbidden := range []string{"secret", dir, "**cut", "NaN"} {
		if strings.Contains(string(page), forbidden) {
			t.Errorf("%q in:\n%s", forbidden, page)
		}
	}
	svg, err := os.ReadFile(filepath.Join(dir, time.Now().Format(time.DateOnly)+"-try.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">try, ", ">gap between tokens, ms<", ">time to first token, ms<", ">seconds<", ">a long prompt until its first token<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in the plot", want)
		}
	}
	b, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	checkLines(t, b, 12)
	if _, err := os.Stat(serverLog); err != nil {
		t.Error(err)
	}
}

// checkLines wants a line of JSON for each request, and one of the summary.
func checkLines(t *testing.T, b []byte, requests int) {
	t.Helper()
	types := map[string]int{}
	for line := range bytes.Lines(b) {
		var v struct{ Type string }
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		types[v.Type]++
	}
	if types["request"] != requests || types["summary"] != 1 || len(types) != 2 {
		t.Errorf("lines of %v", types)
	}
}

// Lines on standard output are alone there.
func TestLinesOnStdout(t *testing.T) {
	args := append(startArgs(t, "fake"), "--requests", "3", "--rate", "200", "--api-key", "secret", "--json", "-")
	c, err := parseFlags(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	if err := load(t.Context(), c, &stdout, io.Discard); err != nil {
		t.Fatal(err)
	}
	checkLines(t, stdout.Bytes(), 3)
}

// What is wrong with the server is said, whenever it happens.
func TestLoadFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"dies before it is ready", startArgs(t, "dies"), []string{"the server ended by itself: exit status 1", "no such model"}},
		{"dies in the run", append(startArgs(t, "crashes"), "--duration", "60s", "--rate", "100"), []string{"cut short: the server ended by itself: exit status 3", "out of memory"}},
		{"is not there", []string{"--url", "unix:" + filepath.Join(t.TempDir(), "none")}, []string{"nothing answers: ", "--server starts one"}},
		{"wants a key", append(startArgs(t, "fake"), "--requests", "2", "--rate", "100"), []string{"2 of 2 requests failed"}},
		{"no such program", []string{"--server", "/no/such/program"}, []string{"the server ended by itself", "/no/such/program"}},
		{"no such process", append(startArgs(t, "fake")[:2], "--pid", "999999999"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parseFlags(append(tt.args, "--model", "m"), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			err = load(t.Context(), c, io.Discard, io.Discard)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
		})
	}
}
