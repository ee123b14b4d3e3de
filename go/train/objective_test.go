package train_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/train"
)

// A judged is a case of scripts/golden_objectives.py.
type judged struct {
	Objective string
	Fields    json.RawMessage
	Texts     []struct {
		Tokens          []int32
		Weights, Labels []float32
	}
	Outcomes, Base, Gradients [][]float64
	Loss, Right, Margin       float64
}

// objective returns the objective with these fields.
func objective[T train.Objective](t *testing.T, fields json.RawMessage) train.Objective {
	var o T
	if err := json.Unmarshal(fields, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

var objectives = map[string]func(*testing.T, json.RawMessage) train.Objective{
	"DPO": objective[train.DPO], "ORPO": objective[train.ORPO], "Contrast": objective[train.Contrast], "Triplet": objective[train.Triplet],
	"MarginMSE": objective[train.MarginMSE], "Similarity": objective[train.Similarity], "Imitate": objective[train.Imitate],
	"Classes": objective[train.Classes], "Ranking": objective[train.Ranking],
}

// Objectives have the losses, and the gradients, of the formulas that NumPy computes.
func TestObjectivesAreTheFormulas(t *testing.T) {
	raw, err := os.ReadFile("testdata/objectives.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []judged
	if err := json.Unmarshal(raw, &all); err != nil || len(all) < 10 {
		t.Fatal(len(all), err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-7*max(1, math.Abs(b)) }
	for _, x := range all {
		o := objectives[x.Objective](t, x.Fields)
		c := train.Chunk{Outcomes: x.Outcomes, Base: x.Base}
		for _, text := range x.Texts {
			c.Texts = append(c.Texts, model.Text{Tokens: text.Tokens, Weights: text.Weights, Labels: text.Labels})
		}
		width := len(x.Outcomes[0])
		if len(x.Base) > 0 || x.Objective == "ORPO" {
			width = 0
		}
		if err := o.Check(c.Texts, width); err != nil {
			t.Errorf("%s %s: %v", x.Objective, x.Fields, err)
			continue
		}
		v := o.Judge(c)
		if !near(v.Loss, x.Loss) || !near(v.Margin, x.Margin) || v.Right != x.Right {
			t.Errorf("%s %s: loss %v, margin %v, %v right; want %v, %v, %v", x.Objective, x.Fields, v.Loss, v.Margin, v.Right,
				x.Loss, x.Margin, x.Right)
		}
		for i, row := range x.Gradients {
			for j, want := range row {
				if got := v.Gradients[i][j]; math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
					t.Errorf("%s %s: gradient %d %d is %v, want %v", x.Objective, x.Fields, i, j, got, want)
				}
			}
		}
	}
}

// What an objective cannot judge is refused, in a line.
func TestObjectivesRefuse(t *testing.T) {
	text := model.Text{Tokens: []int32{1, 2}, Weights: []float32{0, 1}}
	with := func(labels ...float32) model.Text {
		x := text
		x.Labels = labels
		return x
	}
	none := model.Text{Tokens: []int32{1, 2}, Weights: []float32{1, 0}}
	for _, c := range []struct {
		o     train.Objective
		width int
		texts []model.Text
		want  string
	}{
		{train.DPO{}, 8, []model.Text{text, text}, "vectors"},
		{train.DPO{Beta: -1}, 0, []model.Text{text, text}, "beta"},
		{train.DPO{Beta: math.NaN()}, 0, []model.Text{text, text}, "beta"},
		{train.DPO{Smoothing: 0.5}, 0, []model.Text{text, text}, "smoothing"},
		{train.DPO{}, 0, []model.Text{text, none}, "text 2"},
		{train.ORPO{Beta: 1e9}, 0, []model.Text{text, text}, "beta"},
		{train.ORPO{}, 0, []model.Text{text, {Tokens: []int32{1, 2}}}, "text 2"},
		{train.Contrast{}, 0, []model.Text{text, text}, "losses"},
		{train.Contrast{Texts: 1}, 8, []model.Text{text}, "texts"},
		{train.Contrast{Temperature: -1}, 8, []model.Text{text, text}, "temperature"},
		{train.Triplet{Margin: 3}, 8, []model.Text{text, text, text}, "margin"},
		{train.MarginMSE{}, 8, []model.Text{text, text, text}, "labels"},
		{train.Similarity{}, 8, []model.Text{with(float32(math.NaN())), text}, "label"},
		{train.Similarity{}, 8, []model.Text{with(1e30), text}, "label"},
		{train.Imitate{}, 3, []model.Text{with(1, 2)}, "2 labels, want 3"},
		{train.Classes{}, 2, []model.Text{with(1)}, "labels"},
		{train.Classes{}, 2, []model.Text{with(1, 1)}, "sum"},
		{train.Classes{Several: true}, 2, []model.Text{with(1, 2)}, "share"},
		{train.Ranking{}, 1, []model.Text{text}, "texts"},
		{train.Ranking{Texts: 2}, 3, []model.Text{text, text}, "scores"},
	} {
		if err := c.o.Check(c.texts, c.width); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%T %+v: error %v, want one about %q", c.o, c.o, err, c.want)
		}
	}
}
