package quern_test

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/launch"
)

var (
	benchModel   = flag.String("model", quern.Demo, "the `name` of the model of benchmarks")
	benchThreads = flag.Int("threads", 1, "its threads")
)

// counted is a sink that only counts.
type counted struct {
	tokens int
	done   chan error
}

func (c *counted) Progress(engine.Progress)  {}
func (c *counted) Token(generate.Token) bool { c.tokens++; return true }
func (c *counted) Done(r engine.Result)      { c.done <- r.Err }

// BenchmarkOverhead measures what a token costs through Chat beside what it costs in the engine's own loop, whose sink only
// counts. Both generate the same tokens, in turns, so that what else the machine does hits both: the overhead is the median
// of the pairs. The CPU time of the process is compared as well: it says the same on a machine that does other things too.
//
//	scripts/go.sh test -run '^$' -bench Overhead -benchtime 100x . -args -model model.gguf
func BenchmarkOverhead(b *testing.B) {
	const tokens = 128
	ctx := b.Context()
	m, err := quern.Open(ctx, *benchModel, quern.WithContextLength(256), quern.WithParallel(2), quern.WithoutDrafts(),
		quern.WithThreads(*benchThreads))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	running, leave, err := launch.RunningOf(m)
	if err != nil {
		b.Fatal(err)
	}
	defer leave()
	const prompt = "Once upon a time"
	ids, err := m.Tokenize(prompt)
	if err != nil {
		b.Fatal(err)
	}
	greedy := running.Sampling
	greedy.Temp = 0
	own := func() error {
		sink := &counted{done: make(chan error, 1)}
		_, err := running.Loop.Submit(&engine.Request{
			Params: generate.Params{Prompt: ids, MaxTokens: tokens, Sampling: greedy, TopLogprobs: -1, NoShift: true},
			Slot:   -1, Origin: ctx, Sink: sink,
		})
		if err == nil {
			err = <-sink.done
		}
		if err == nil && sink.tokens != tokens {
			err = fmt.Errorf("%d tokens, want %d", sink.tokens, tokens)
		}
		return err
	}
	chat := func() error {
		r := quern.Request{Prompt: prompt, MaxTokens: tokens, Temperature: new(0.0), IgnoreEnd: true}
		for e, err := range m.Chat(ctx, r) {
			if err != nil {
				return err
			}
			if e.Result != nil && e.Result.Usage.AnswerTokens != tokens {
				return fmt.Errorf("%d tokens, want %d", e.Result.Usage.AnswerTokens, tokens)
			}
		}
		return nil
	}
	type cost struct{ wall, cpu float64 } // nanoseconds per token
	timed := func(f func() error) cost {
		start, used := time.Now(), cpuTime(b)
		if err := f(); err != nil {
			b.Fatal(err)
		}
		return cost{float64(time.Since(start)) / tokens, float64(cpuTime(b)-used) / tokens}
	}
	timed(own)
	timed(chat)
	var owns, chats, ratios, cpuRatios []float64
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		var x, y cost
		if i%2 == 0 {
			x, y = timed(own), timed(chat)
		} else {
			y, x = timed(chat), timed(own)
		}
		owns, chats = append(owns, x.wall), append(chats, y.wall)
		ratios, cpuRatios = append(ratios, y.wall/x.wall), append(cpuRatios, y.cpu/x.cpu)
	}
	b.ReportMetric(median(owns), "loop-ns/token")
	b.ReportMetric(median(chats), "chat-ns/token")
	b.ReportMetric(100*(median(ratios)-1), "overhead-%")
	b.ReportMetric(100*(median(cpuRatios)-1), "cpu-overhead-%")
}

// cpuTime returns what the process has had of the CPUs.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(all []float64) float64 {
	slices.SortFunc(all, cmp.Compare[float64])
	return all[len(all)/2]
}
