package engine

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/model/nn"
)

// rowReader keeps the largest number of each row of logits.
type rowReader struct {
	rows int
	best []float32
	ends int
}

func (r *rowReader) Reads() (string, int, int)             { return nn.Logits, 0, r.rows }
func (r *rowReader) Read(_ int, row []float32)             { r.best = append(r.best, slices.Max(row)) }
func (r *rowReader) End(func(string, []float32) []float32) { r.ends++ }

// A request with a Reader generates what it generates without, and the Reader gets each row once, also where the
// request is preempted and its prompt evaluated again.
func TestReaderBesideGeneration(t *testing.T) {
	const prompt, answer = 50, 12
	probe := open(t, tiny, Config{})
	c := Config{Sequences: 1, Batch: 16, Ctx: prompt + answer + 1}
	c.KVBytes = least(probe.kv.Layout(), c.Ctx)
	l := openLoop(t, tiny, c, LoopConfig{})
	ids := randomIDs(probe, 1, prompt)
	_, plain := submit(t, l, greedyRequest(ids, answer))
	plain.wait(t)

	ask := func(n int) (*rowReader, *Request) {
		r, reader := greedyRequest(ids, n), &rowReader{rows: len(ids)}
		r.Reader = reader
		return reader, r
	}
	alone, r := ask(0)
	_, s := submit(t, l, r)
	s.said(t, "a reader alone", nil, generate.MaxedOut)

	both, r := ask(answer)
	begun, other := make(chan struct{}), make(chan struct{})
	r.Sink.(*catcher).on = func(n int) {
		if n == 3 {
			close(begun)
			<-other
		}
	}
	_, s = submit(t, l, r)
	<-begun
	urgent := greedyRequest(randomIDs(probe, 2, prompt), answer)
	urgent.Priority = 1
	submit(t, l, urgent)
	close(other)
	if res := s.said(t, "a reader and an answer", plain.ids, generate.MaxedOut); res.Preempted == 0 {
		t.Errorf("%+v: it was not preempted", res)
	}
	if len(both.best) != prompt || !slices.Equal(both.best, alone.best) || both.ends != 1 || alone.ends != 1 {
		t.Errorf("%d rows and %d ends, %d and %d alone, of %d tokens", len(both.best), both.ends, len(alone.best), alone.ends, prompt)
	}
}

// A rowsReader keeps a range of rows of logits.
type rowsReader struct {
	from, to int
	rows     map[int][]float32
	ends     int
}

func (r *rowsReader) Reads() (string, int, int) { return nn.Logits, r.from, r.to }
func (r *rowsReader) Read(i int, row []float32) { r.rows[i] = slices.Clone(row) }
func (r *rowsReader) End(func(string, []float32) []float32) {
	r.ends++
}

// Readers get the rows of their texts and no others, each once, whatever else is in the pass: other texts, branches, and more
// rows than are computed at a time. One that is not called any more does not end.
func TestRowsAmongOthers(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 128, Sequences: 4})
	texts := [][]int32{randomIDs(e, 1, 20), randomIDs(e, 2, 5), randomIDs(e, 3, 10), randomIDs(e, 4, 7)}
	var want []map[int][]float32
	for _, ids := range texts {
		want = append(want, logits(t, e, ids, nil))
	}
	for _, room := range []int{1, 3, 7, 32} {
		e.rows = make([]int32, 0, room)
		items := make([]Item, len(texts))
		readers := make([]*reading, len(texts))
		all := []*rowsReader{{from: 3, to: 17}, nil, {from: 0, to: 10}, {from: 6, to: 7}}
		for i, ids := range texts {
			items[i] = Item{Seq: e.NewSequence(), IDs: ids}
			if all[i] == nil {
				items[i].Branches = []Branch{{IDs: []int32{7, 8}}, {IDs: []int32{9}}}
				continue
			}
			all[i].rows = map[int][]float32{}
			var err error
			if readers[i], err = newReading(all[i], 0, len(ids)); err != nil {
				t.Fatal(err)
			}
		}
		leave := e.device.enter()
		err := e.device.inTurn(func() error {
			if err := e.pass(canceler{ctx: t.Context()}, items); err != nil {
				return err
			}
			n := 0
			for range 2 { // the second time all have theirs
				e.read(items, readers, func(i int, f func()) {
					if n++; i != 3 { // the last is not called
						f()
					}
				})
			}
			return nil
		})
		leave()
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range all {
			if r == nil {
				continue
			}
			ends, rows := 1, r.to-r.from
			if i == 3 {
				ends, rows = 0, 0
			}
			if r.ends != ends || len(r.rows) != rows {
				t.Errorf("with room for %d rows text %d has %d of %d, and ends %d times", room, i, len(r.rows), rows, r.ends)
			}
			for at, row := range r.rows {
				if !slices.Equal(row, want[i][at]) {
					t.Errorf("with room for %d rows row %d of text %d is another's", room, at, i)
				}
			}
		}
		for i := range items {
			items[i].adopt(0)
			items[i].Seq.Close()
		}
	}
}
