package finetune

import (
	"context"
	"time"

	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
)

// An Effect is how the model predicts what would be learnt of held-out examples, with the best adapter and without it, which is
// the base of the Summary.
type Effect struct {
	Examples, Of int // that were compared, of those that are held out
	eval.Summary
}

// effectBytes is the most that the logits of an example take which are compared: those of its first predictions.
const effectBytes = 128 << 20

// CanCompare reports whether Compare has something to compare: held-out texts that a model writes, and an adapter that is not the
// beginning's.
func (j *Job) CanCompare() bool {
	return len(j.Held) > 0 && j.HeldOut.Learnt > 1 && j.Pooling == nn.PoolNone && !j.Settings.fresh() && j.best != nil && j.BestStep > 0
}

// Compare compares the predictions for the held-out examples with the best adapter and without it, of pairs for the better answer.
// It ends with the example after which `most` has passed.
func (j *Job) Compare(ctx context.Context, most time.Duration) (e Effect, err error) {
	stop := new(kernel.Stop)
	defer context.AfterFunc(ctx, stop.Set)()
	err = j.WithBest(func() (err error) {
		e, err = j.compare(most, stop)
		return stopped(ctx, err)
	})
	return e, err
}

func (j *Job) compare(most time.Duration, stop *kernel.Stop) (e Effect, err error) {
	nVocab := j.model.Config.NVocab
	rows := 0
	for _, x := range j.Held {
		rows = max(rows, learntOf(x))
	}
	rows = min(rows, max(effectBytes/(4*nVocab), 16))
	room, err := j.budget.Alloc("logits to compare", uint64(4*rows*nVocab))
	if err != nil {
		return e, err
	}
	defer room.Close()
	logits, d := mem.Float32s(room.Bytes()), &eval.Divergence{}
	begun, each := time.Now(), j.each()
	e.Of = len(j.Held) / each
	for i := 0; i < len(j.Held); i += each {
		x := shortened(j.Held[i], rows)
		at := 0
		err := j.trainer.Logits(x, true, stop, func(_ int, of []float32) error {
			copy(logits[at*nVocab:(at+1)*nVocab], of)
			at++
			return nil
		})
		if err == nil {
			at = 0
			err = j.trainer.Logits(x, false, stop, func(i int, of []float32) error {
				at++
				return d.AddLogits(logits[(at-1)*nVocab:at*nVocab], of, x.Tokens[i])
			})
		}
		if err != nil {
			return e, err
		}
		if e.Examples++; time.Since(begun) > most {
			break
		}
	}
	e.Summary = d.Summary()
	return e, nil
}

// WithBest has passes, and a new classifier in the model's file, use the best numbers while do runs, in whose place Numbers has the
// latest meanwhile. Where nothing was measured the latest are the best.
func (j *Job) WithBest(do func() error) (err error) {
	if j.best == nil || j.Evaluated < 0 {
		return do()
	}
	if err := j.exchange(); err != nil {
		return err
	}
	defer func() {
		if back := j.exchange(); err == nil {
			err = back
		}
	}()
	return do()
}

// exchange has the numbers of the best adapter and of the last step change places.
func (j *Job) exchange() error {
	last := j.trainer.Adapter.Numbers()
	best := mem.Float32s(j.best.Bytes())[:len(last)]
	for i, v := range last {
		last[i], best[i] = best[i], v
	}
	return j.trainer.Adapter.Moved(j.pool)
}

// learntOf returns how many tokens of a text are predicted.
func learntOf(x model.Text) (n int) {
	for _, w := range x.Weights[1:] {
		if w != 0 {
			n++
		}
	}
	return n
}

// shortened returns the text up to the n-th token that is predicted.
func shortened(x model.Text, n int) model.Text {
	for i := 1; i < len(x.Weights); i++ {
		if x.Weights[i] == 0 {
			continue
		}
		if n--; n == 0 {
			x.Tokens, x.Weights = x.Tokens[:i+1], x.Weights[:i+1]
			break
		}
	}
	return x
}
