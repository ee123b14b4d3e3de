package finetune

import (
	"context"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// A Class is how a class of a classifier's is among the examples, and how texts that are held out are classified.
type Class struct {
	Name         string
	Learnt, Held int // examples of it

	Right  int    // of those held out, those that are classified so; of a classifier of several classes, as that as well
	Wrong  int    // of the others held out, those that are classified as it by mistake
	Rather string // as what examples of it are classified by mistake most often; empty: there are none, or several are possible
	Times  int    // how often that is
}

// Tally returns the classes, with how many examples there are of each; nil: no classes are learnt.
func (p *Plan) Tally() []Class {
	all := make([]Class, len(p.Classes))
	for i := range all {
		all[i].Name = p.Classes[i]
		all[i].Learnt, all[i].Held = labelled(p.Texts, i), labelled(p.Held, i)
	}
	return all
}

// labelled returns how many texts are of class i.
func labelled(texts []model.Text, i int) (n int) {
	for _, x := range texts {
		if x.Labels[i] > 0.5 {
			n++
		}
	}
	return n
}

// Confusion returns Tally with how texts that are held out are classified by the best numbers. There must be some.
func (j *Job) Confusion(ctx context.Context) (all []Class, err error) {
	stop := new(kernel.Stop)
	defer context.AfterFunc(ctx, stop.Set)()
	err = j.WithBest(func() (err error) {
		all, err = j.confusion(stop)
		return stopped(ctx, err)
	})
	return all, err
}

func (j *Job) confusion(stop *kernel.Stop) ([]Class, error) {
	all := j.Tally()
	taken := make([][]int, len(all)) // of each class, by that it was classified as
	for i := range taken {
		taken[i] = make([]int, len(all))
	}
	apart := j.model.Config.Classifier.Several || len(all) == 1
	for i := range j.Held {
		outcomes, err := j.trainer.Outcomes(j.Held[i:i+1], false, stop) // which do not depend on company
		if err != nil {
			return nil, err
		}
		scores, labels := outcomes[0], j.Held[i].Labels
		best := slices.Index(scores, slices.Max(scores))
		for k := range all {
			is, said := labels[k] > 0.5, best == k
			if apart {
				said = scores[k] > 0
			}
			switch {
			case is && said:
				all[k].Right++
			case said:
				all[k].Wrong++
			case is && !apart:
				taken[k][best]++
			}
		}
	}
	for k := range all {
		if n := slices.Max(taken[k]); n > 0 {
			all[k].Times, all[k].Rather = n, all[slices.Index(taken[k], n)].Name
		}
	}
	return all, nil
}

// CanConfuse reports whether Confusion has something to count.
func (j *Job) CanConfuse() bool { return len(j.Classes) > 0 && len(j.Held) > 0 && j.Evaluated >= 0 }
