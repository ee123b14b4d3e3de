package main

import (
	"reflect"
	"testing"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/model"
)

// Each setting has a flag, which errors of a saved run name; but Classifier, which follows from the model and its examples.
func TestSettingsHaveFlags(t *testing.T) {
	fs := newFinetuneCommand().Flags()
	for _, of := range []reflect.Type{reflect.TypeFor[finetune.Settings](), reflect.TypeFor[model.LoRA]()} {
		for i := range of.NumField() {
			name := of.Field(i).Name
			if flag := settingFlags[name]; name != "LoRA" && name != "Classifier" && fs.Lookup(flag) == nil {
				t.Errorf("%s has no flag %q", name, flag)
			}
		}
	}
	changed := &finetune.Changed{Setting: "Schedule", Was: "0", Is: "2"}
	if err := named(fs, changed); err != error(changed) || changed.Setting != "--schedule" || changed.Was != "cosine" || changed.Is != "constant" {
		t.Errorf("%+v", changed)
	}
}
