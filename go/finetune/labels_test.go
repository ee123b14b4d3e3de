package finetune

import (
	"testing"

	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/train/data"
)

// A label that is a number is the index of a class only where no name is a number.
func TestNumbersAsLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		classes []string
		fresh   bool
		label   string
		ok      bool
	}{
		{[]string{"1", "2", "3"}, false, "0", false},
		{[]string{"1", "2", "3"}, true, "3", true},
		{[]string{"a", "b"}, true, "0", true},
		{[]string{"a", "b"}, false, "0", true},
		{[]string{"a", "b"}, false, "2", false},
	} {
		var of nn.Config
		of.Classifier.NScore, of.Classifier.Labels = len(c.classes), c.classes
		p := &Plan{}
		if c.fresh {
			p.Settings.Classes = c.classes
		}
		x := data.Comparison{Query: "a text", Classed: true, Classes: []string{c.label}}
		y := x
		y.Classes = []string{c.classes[1]}
		to, err := p.comparing(&of, []data.Comparison{x, y}, nil)
		if err == nil {
			_, err = to.labels(&x)
		}
		if (err == nil) != c.ok {
			t.Errorf("%q of %q, new: %v: %v", c.label, c.classes, c.fresh, err)
		}
	}
}
