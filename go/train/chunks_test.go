package train

import (
	"testing"
	"time"

	"github.com/quern-llm/quern/go/model"
)

// The chunks of a few epochs are counted, and those of very many cost no more time.
func TestChunksOfManyEpochs(t *testing.T) {
	t.Parallel()
	texts := func(n int) (all []model.Text) {
		for i := range n {
			all = append(all, model.Text{Tokens: make([]int32, 2+i%7)})
		}
		return all
	}
	few := texts(100)
	each := 0
	for epoch := range 50 {
		for left := order(len(few), 1, 9, epoch); len(left) > 0; each++ {
			left = left[fill(few, 1, left, 64):]
		}
	}
	if n := Chunks(few, nil, 64, 9, 50); n != each {
		t.Errorf("%d chunks of 50 epochs, want %d", n, each)
	}
	many := texts(1 << 18)
	four := Chunks(many, nil, 512, 9, 4)
	began := time.Now()
	n := Chunks(many, nil, 512, 9, 10_000)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("10000 epochs took %v to count", took)
	}
	if n != four*2500 {
		t.Errorf("%d chunks of 10000 epochs, want 2500 times %d", n, four)
	}
	if n := Chunks(few, nil, 4, 9, 10_000); n > 100 { // a text does not fit
		t.Errorf("%d chunks", n)
	}
}
