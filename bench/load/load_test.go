package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

func findGroup(t *testing.T, d *drive, name string) group {
	t.Helper()
	i := slices.IndexFunc(d.summary.Groups, func(g group) bool { return g.Name == name })
	if i < 0 {
		t.Fatalf("no group %q in %+v", name, d.summary.Groups)
	}
	return d.summary.Groups[i]
}

func count(d *drive, outcome string) int {
	for _, o := range d.summary.Outcomes {
		if o.Outcome == outcome {
			return o.N
		}
	}
	return 0
}

// Times, tokens and rates are what the script of the server says, whichever ends
// of lines it sends.
func TestMeasures(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			d := drives(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
				req, _ := reads(w, r)
				w = lineEnds{w, end}
				if req.Seed == 2 {
					says(w, 500*ms, 300*ms, 40*ms)
					return
				}
				says(w, 250*ms, 40*ms, 40*ms)
			}, "--requests", "4", "--rate", "0.5", "--arrivals", "fixed")
			g := findGroup(t, d, "short")
			if want := (spread{4, 250, 500, 500, 500}); g.TTFT != want {
				t.Errorf("TTFT %+v, want %+v", g.TTFT, want)
			}
			if want := (spread{8, 40, 300, 300, 300}); g.ITL != want {
				t.Errorf("ITL %+v, want %+v", g.ITL, want)
			}
			if want := (spread{4, 330, 840, 840, 840}); g.E2E != want {
				t.Errorf("e2e %+v, want %+v", g.E2E, want)
			}
			// The last of them begins after 6 s and takes 0.33 s.
			per := func(n, seconds float64) float64 { return n / seconds }
			if want := (flow{6.33, per(4, 6.33), per(80, 6.33), per(32, 6.33), per(12, 6.33)}); d.summary.Whole != want {
				t.Errorf("whole %+v, want %+v", d.summary.Whole, want)
			}
			if got, want := d.summary.Busy.Seconds, 3*0.33+0.84; got != want {
				t.Errorf("busy for %v s, want %v", got, want)
			}
			if count(d, "stop") != 4 || d.summary.Errors != 0 || d.summary.LateMax != 0 || d.summary.Uncounted != 0 || d.verdict(nil) != nil {
				t.Errorf("%+v", d.summary)
			}
		})
	}
}

// A lineEnds ends lines otherwise.
type lineEnds struct {
	http.ResponseWriter
	end string
}

func (w lineEnds) Write(b []byte) (int, error) {
	_, err := w.ResponseWriter.Write(bytes.ReplaceAll(b, []byte("\n"), []byte(w.end)))
	return len(b), err
}

func (w lineEnds) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// Waiting counts from when a request was meant to be sent: a server that stalls
// shows it, and so does a client that may not send.
func TestIntendedTime(t *testing.T) {
	for _, tt := range []struct {
		cap  string
		held int
	}{{"100", 0}, {"1", 3}} {
		synctest.Test(t, func(t *testing.T) {
			one := make(chan struct{}, 1)
			d := drives(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
				req, _ := reads(w, r)
				one <- struct{}{}
				defer func() { <-one }()
				if req.Seed == 0 {
					time.Sleep(5 * time.Second)
				}
				says(w, 100*ms, 50*ms)
			}, "--requests", "4", "--rate", "1", "--arrivals", "fixed", "--concurrency-cap", tt.cap)
			var got []time.Duration
			slices.SortFunc(d.results, func(a, b *result) int { return cmp.Compare(a.id, b.id) })
			for _, r := range d.results {
				ttft, _ := r.ttft()
				got = append(got, ttft, r.e2e())
			}
			if want := []time.Duration{5100 * ms, 5150 * ms, 4250 * ms, 4300 * ms, 3400 * ms, 3450 * ms, 2550 * ms, 2600 * ms}; !slices.Equal(got, want) {
				t.Errorf("cap %s: TTFT and e2e %v, want %v", tt.cap, got, want)
			}
			if d.summary.Held != tt.held {
				t.Errorf("cap %s: %d were held, want %d", tt.cap, d.summary.Held, tt.held)
			}
		})
	}
}

// What is cancelled is seen by the server at once, and is no error.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var gone []time.Duration
		var mu sync.Mutex
		d := drives(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
			req, _ := reads(w, r)
			begins(w)
			piece(w, "a")
			time.Sleep(100 * ms)
			piece(w, "b")
			if req.Seed == 3 { // it ends before it is cancelled
				ends(w, "stop", 1, 2, 0)
				return
			}
			<-r.Context().Done()
			mu.Lock()
			gone = append(gone, time.Since(start))
			mu.Unlock()
		}, "--requests", "4", "--rate", "1", "--arrivals", "burst:4", "--cancel-share", "1", "--cancel-after-ms", "700")
		if want := []time.Duration{700 * ms, 700 * ms, 700 * ms}; !slices.Equal(gone, want) {
			t.Errorf("the server lost its clients after %v, want %v", gone, want)
		}
		g := findGroup(t, d, "cancelled")
		if count(d, "cancelled") != 3 || d.summary.Errors != 0 || count(d, "stop") != 1 || g.ITL != (spread{4, 100, 100, 100, 100}) || g.E2E.N != 0 {
			t.Errorf("%+v, group %+v", d.summary.Outcomes, g)
		}
		if d.summary.Uncounted != 3 {
			t.Errorf("%d without usage, want 3", d.summary.Uncounted)
		}
	})
}

// Malformed bodies want 4xx, and anything else is an error.
func TestBadBodies(t *testing.T) {
	for status, wrong := range map[int]int{400: 0, 422: 0, 500: 1, 200: 1} {
		synctest.Test(t, func(t *testing.T) {
			d := drives(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
				if _, ok := reads(discard{}, r); ok {
					says(w, 10*ms)
					return
				}
				http.Error(w, "no", status)
			}, "--requests", "60", "--rate", "10", "--bad-share", "0.4")
			all := findGroup(t, d, "bad").Requests
			if all < 10 || all > 40 {
				t.Fatalf("%d of 60 are bad, with a share of 0.4", all)
			}
			if got := d.summary.Errors; got != all*wrong || count(d, "bad body, refused") != all*(1-wrong) || count(d, "stop") != 60-all {
				t.Errorf("status %d: %d errors of %d: %+v", status, got, all, d.summary.Outcomes)
			}
		})
	}
}

// A discard is an answer that nobody reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// A text that differs from the same request alone is found, and so is one that
// was cancelled before it ended.
func TestVerify(t *testing.T) {
	for _, tt := range []struct {
		planted string
		args    []string
		want    verdict
	}{
		{"", nil, verdict{Asked: 6}},
		{"text", nil, verdict{Asked: 6, Differ: 1, Examples: []string{`request 3, turn 0: text differs from byte 6 on: "3 more" under load, "4 more" alone`}}},
		{"longer", nil, verdict{Asked: 6, Differ: 1, Examples: []string{`request 3, turn 0: text differs from byte 12 on: "" under load, " more" alone`}}},
		{"longer", []string{"--cancel-share", "1", "--cancel-after-ms", "150"}, verdict{Asked: 6}},
		{"text", []string{"--cancel-share", "1", "--cancel-after-ms", "150"}, verdict{Asked: 6, Differ: 1, Examples: []string{`request 3, turn 0: text differs from byte 6 on: "3" under load, "4 more" alone`}}},
		{"finish", nil, verdict{Asked: 6, Differ: 1, Examples: []string{`request 3, turn 0: finish_reason differs from byte 0 on: "stop" under load, "length" alone`}}},
		{"failure", nil, verdict{Asked: 6, Failed: 1, Examples: []string{"request 3, turn 0: status 503: busy"}}},
		{"", []string{"--verify", "2"}, verdict{Asked: 2}},
	} {
		synctest.Test(t, func(t *testing.T) {
			seen := map[int]bool{}
			var mu sync.Mutex
			d := drives(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
				req, _ := reads(w, r)
				if !r.Close {
					t.Error("the connection is kept for other requests")
				}
				mu.Lock()
				planted := ""
				if seen[req.Seed] && req.Seed == 3 {
					planted = tt.planted
				}
				seen[req.Seed] = true
				mu.Unlock()
				if planted == "failure" {
					http.Error(w, `{"message": "busy"}`, http.StatusServiceUnavailable)
					return
				}
				begins(w)
				if planted == "text" {
					req.Seed++
				}
				piece(w, fmt.Sprintf("hello %d", req.Seed))
				time.Sleep(200 * ms)
				piece(w, " more")
				if planted == "longer" {
					piece(w, " more")
				}
				if planted == "finish" {
					ends(w, "length", 1, 1, 0)
				} else {
					ends(w, "stop", 1, 1, 0)
				}
			}, append([]string{"--requests", "6", "--rate", "100", "--verify", "10"}, tt.args...)...)
			got := *d.summary.Verify
			if got.Asked != tt.want.Asked || got.Differ != tt.want.Differ || got.Failed != tt.want.Failed || !slices.Equal(got.Examples, tt.want.Examples) {
				t.Errorf("%s %q: got %+v, want %+v", tt.planted, tt.args, got, tt.want)
			}
			if bad := got.Differ+got.Failed > 0; (d.verdict(nil) != nil) != bad {
				t.Errorf("%s: %v", tt.planted, d.verdict(nil))
			}
		})
	}
}

// Of many requests each is kept with the same chance.
func TestVerifierKeepsAny(t *testing.T) {
	var sum, n int
	for seed := range uint64(200) {
		v := newVerifier(10, seed)
		for id := range 1000 {
			v.see(&result{id: id, answer: answer{status: http.StatusOK, stream: stream{done: time.Now()}}})
		}
		for _, k := range v.kept {
			sum, n = sum+k.id, n+1
		}
	}
	if mean := sum / n; n != 2000 || mean < 470 || mean > 530 { // 500, with a deviation of 6.5
		t.Errorf("%d kept, of 0 to 999 the mean is %d", n, mean)
	}
}

// A turn has all before it in its prompt, and comes when its time has come
// after the answer.
func TestTurns(t *testing.T) {
	for _, api := range []string{"chat", "completions"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var at []time.Duration
			var got []request
			d := drives(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
				at = append(at, time.Since(start))
				req, _ := reads(w, r)
				got = append(got, req)
				if r.URL.Path == "/v1/completions" {
					w.Header().Set("Content-Type", "text/event-stream")
					time.Sleep(100 * ms)
					sends(w, `data: {"choices":[{"text":"fine"}]}`)
					ends(w, "stop", 1, 1, 0)
					return
				}
				begins(w)
				sends(w, `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}`)
				time.Sleep(100 * ms)
				piece(w, "fine")
				ends(w, "stop", 1, 1, 0)
			}, "--api", api, "--requests", "1", "--rate", "1", "--arrivals", "fixed", "--turns", "3", "--think-ms", "1000",
				"--shared-prefix", "5", "--prompt-words", "2", "--max-tokens", "7", "--extra", `{"extra": "yes"}`)
			if want := []time.Duration{0, 1100 * ms, 2200 * ms}; !slices.Equal(at, want) {
				t.Fatalf("turns came at %v, want %v", at, want)
			}
			if g := findGroup(t, d, "short, later turns"); g.E2E != (spread{2, 100, 100, 100, 100}) {
				t.Errorf("%+v", g)
			}
			for i, req := range got {
				if req.Extra != "yes" || req.MaxTokens != 7 || req.Temperature == nil || *req.Temperature != 0 || !req.Stream || !req.StreamOptions.IncludeUsage || req.Model != "m" {
					t.Errorf("%+v", req)
				}
				if i == 0 {
					continue
				}
				if before := got[i-1]; api == "completions" {
					if rest, ok := strings.CutPrefix(req.Prompt, before.Prompt+"\n\nfine\n\n"); !ok || len(strings.Fields(rest)) != 2 {
						t.Errorf("turn %d: %q after %q", i, req.Prompt, before.Prompt)
					}
				} else if n := len(before.Messages); len(req.Messages) != n+2 || !slices.Equal(req.Messages[:n], before.Messages) ||
					req.Messages[n] != (message{"assistant", "fine"}) || req.Messages[n+1].Role != "user" {
					t.Errorf("turn %d: %v after %v", i, req.Messages, before.Messages)
				}
			}
			if first := got[0]; api == "chat" && (first.Messages[0].Role != "system" || len(strings.Fields(first.Messages[0].Content)) != 5) {
				t.Errorf("no shared prefix in %v", first.Messages)
			}
		})
	}
}

// What a server can do wrong is told apart, and counted.
func TestFailures(t *testing.T) {
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, text)
		}
	}
	const hi = `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n"
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		outcome string
		sample  string
	}{
		{"fine", raw(hi + "data: [DONE]\n\n"), "stop", ""},
		{"no end", raw(hi), "cut off", "the stream ended without [DONE]"},
		{"no reason", raw("data: [DONE]\n\n"), "cut off", "the stream ended without a finish_reason"},
		{"no JSON", raw("data: oops\n\n"), "not a chunk", `in "oops"`},
		{"error", raw(hi + `data: {"error":{"message":"it broke","code":500}}` + "\n\n"), "error in the stream", "it broke"},
		{"a line too long", raw("data: " + strings.Repeat("x", 33<<20) + "\n\n"), "cut off", "token too long"},
		{"panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no answer", "EOF"},
		{"no stream", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
		}, "not a stream", `the content type is "application/json", want text/event-stream`},
		{"404", http.NotFound, "status 404", "404 page not found"},
		{"429", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"error":"full"}`, http.StatusTooManyRequests)
		}, "status 429", "full"},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout", "no end within --timeout"},
		{"hangs later", func(w http.ResponseWriter, r *http.Request) {
			begins(w)
			piece(w, "hi")
			<-r.Context().Done()
		}, "timeout", "no end within --timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := drives(t, t.Context(), tt.handler, "--requests", "2", "--rate", "1", "--turns", "2", "--timeout", "1m", "--allow-status", "429")
				o := d.summary.Outcomes
				if tt.outcome == "stop" {
					if count(d, "stop") != 4 || d.verdict(nil) != nil {
						t.Errorf("got %+v", o)
					}
					return
				}
				if len(o) != 1 || o[0].Outcome != tt.outcome || o[0].N != 2 || !strings.Contains(o[0].Sample, tt.sample) {
					t.Errorf("got %+v, want %s: %s", o, tt.outcome, tt.sample)
				}
				if failed := tt.name != "429"; o[0].Error != failed || (d.verdict(nil) != nil) != failed {
					t.Errorf("%+v, %v", o, d.verdict(nil))
				}
				if g := findGroup(t, d, "short"); g.Requests != 2 || g.TTFT.N+g.ITL.N+g.E2E.N != 0 {
					t.Errorf("failures are in the percentiles: %+v", g)
				}
				d.c.maxErrors = 2
				if err := d.verdict(nil); err != nil {
					t.Errorf("with --max-errors 2: %v", err)
				}
			})
		})
	}
}

// A run that is cut short goes away from the server and reports what it saw.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3500*ms, func() { cancel(errors.New("ctrl-C")) })
		d := drives(t, ctx, func(w http.ResponseWriter, r *http.Request) {
			req, _ := reads(w, r)
			if req.Seed < 2 {
				says(w, 100*ms)
				return
			}
			<-r.Context().Done()
		}, "--duration", "1h", "--rate", "1", "--arrivals", "fixed", "--verify", "5")
		if count(d, "stop") != 2 || count(d, "not ended") != 2 || d.summary.Errors != 0 || d.summary.Verify.Asked != 0 {
			t.Errorf("%+v", d.summary)
		}
		if err := d.verdict(context.Cause(ctx)); err == nil || err.Error() != "cut short: ctrl-C" {
			t.Errorf("%v", err)
		}
	})
}

// A server that is loading is waited for.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := parseFlags(nil, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		client, err := newClient(c)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var health map[string]func() int
		client.http.Transport = trip(func(r *http.Request) (int, string) {
			if of := health[r.URL.Path]; of != nil {
				return of(), `{"data": [{"id": "the-model"}, {"id": "another"}]}`
			}
			return 404, ""
		})
		after := func(d time.Duration, before int) func() int {
			return func() int {
				if time.Since(start) >= d {
					return 200
				}
				return before
			}
		}
		for _, tt := range []struct {
			name    string
			health  map[string]func() int
			started bool
			took    time.Duration
			err     string
		}{
			{"at once", map[string]func() int{"/health": after(0, 503)}, false, 0, ""},
			{"loading", map[string]func() int{"/health": after(20*time.Second, 503)}, false, 20 * time.Second, ""},
			{"no health", map[string]func() int{"/v1/models": after(0, 503)}, false, 0, ""},
			{"too long", map[string]func() int{"/health": after(20*time.Minute, 503)}, false, 5 * time.Minute, "not ready after 5m0s (--wait)"},
			{"elsewhere", nil, false, 0, "is this the address"},
			{"started", map[string]func() int{"/health": after(3*time.Second, 0)}, true, 3 * time.Second, ""},
			{"refused", map[string]func() int{"/health": after(3*time.Second, 0)}, false, 0, "nothing answers"},
		} {
			start = time.Now()
			health = tt.health
			err := client.ready(t.Context(), "", c.wait, tt.started)
			if took := time.Since(start); took != tt.took || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v after %v; want %q after %v", tt.name, err, took, tt.err, tt.took)
			}
		}
		health = map[string]func() int{"/v1/models": func() int { return 200 }}
		if model, err := client.firstModel(t.Context(), ""); model != "the-model" || err != nil {
			t.Errorf("%q, %v", model, err)
		}
		health = nil
		if _, err := client.firstModel(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "--model") {
			t.Errorf("%v", err)
		}
	})
}

// A trip answers without a network; status 0 is a refused connection.
type trip func(r *http.Request) (status int, body string)

func (t trip) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := t(r)
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// Every line of --json is an object with what the tables are made of.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drives(t, t.Context(), func(w http.ResponseWriter, r *http.Request) { says(w, 250*ms, 40*ms) },
			"--requests", "1", "--arrivals", "fixed", "--api-key", "heavy=secret")
		b, err := json.Marshal(d.results[0])
		const want = `{"cached_tokens":8,"class":"short","counted":true,"e2e_ms":290,"finish_reason":"stop","held":false,"id":0,` +
			`"intended_ms":0,"itl_ms":[40],"key":"heavy","outcome":"stop","output_tokens":2,"prompt_tokens":20,"sent_ms":0,` +
			`"shared_prefix":false,"status":200,"ttft_ms":250,"turn":0,"type":"request"}`
		if err != nil || string(b) != want {
			t.Errorf("got  %s, %v\nwant %s", b, err, want)
		}
	})
}
