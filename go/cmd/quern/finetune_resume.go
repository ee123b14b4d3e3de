package main

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/finetune"
)

// settingFlags are the flags that set fields of finetune.Settings.
var settingFlags = map[string]string{
	"Rank": "rank", "Alpha": "alpha", "RankStable": "rslora", "Magnitudes": "dora", "Targets": "targets", "Weights": "full", "Head": "draft-head", "Classes": "classes", "HeadTokens": "draft-vocab",
	"Preference": "objective", "Beta": "beta", "Temperature": "temperature", "Epochs": "epochs", "Steps": "steps",
	"Context": "ctx-size", "Batch": "batch-size", "Long": "long", "Rate": "lr", "Least": "lr-min", "Warmup": "warmup",
	"Schedule": "schedule", "Decay": "weight-decay", "Beta2": "beta2", "Muon": "muon", "MuonDecay": "muon-decay", "Clip": "clip",
	"Seed": "seed", "Share": "val-split", "Every": "eval-every", "Patience": "patience",
}

// named has an error of a saved run name the command's flag of a setting that is another.
func named(fs *pflag.FlagSet, err error) error {
	var changed *finetune.Changed
	if !errors.As(err, &changed) {
		return err
	}
	if changed.Setting == "Schedule" {
		changed.Was, changed.Is = scheduleName(changed.Was), scheduleName(changed.Is)
	}
	flag := settingFlags[changed.Setting]
	if changed.Setting == "Weights" && fs.Lookup(flag) == nil { // of quern train
		flag = "rounded"
	}
	changed.Setting = "--" + cmp.Or(flag, changed.Setting)
	return err
}

// scheduleName is the word of a train.Schedule in digits.
func scheduleName(digits string) string {
	if n, err := strconv.Atoi(digits); err == nil && n >= 0 && n < len(schedules) {
		return schedules[n]
	}
	return digits
}
