package verify

import (
	"context"
	"crypto/sha256"
	_ "embed" // for the table
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kvcache"
)

//go:embed table.json
var published []byte

// Table returns the rows that every machine must reproduce.
var Table = sync.OnceValue(func() []Row {
	var rows []Row
	if err := json.Unmarshal(published, &rows); err != nil {
		panic(fmt.Sprintf("verify: table.json: %v", err)) // a test reads it
	}
	return rows
})

// Profile is the name of the numeric profile: two programs of the same profile give
// the same logits for the same model, prompt and type of keys and values.
var Profile = sync.OnceValue(func() string {
	h := sha256.New()
	for _, r := range Table() {
		if r.Training != "" {
			continue
		}
		fmt.Fprintf(h, "%s %s %s\n", r.Model, r.KV, r.Logits)
	}
	return "bits-" + hex.EncodeToString(h.Sum(nil)[:4])
})

// Check recomputes a row as Compute or Train does; training is of one process. An error says what differs.
func (want *Row) Check(ctx context.Context, c engine.DeviceConfig, d Division) error {
	kv, err := kvcache.ParseType(want.KV)
	if err != nil {
		return err
	}
	if want.Training != "" && kv != kvcache.F16 {
		return fmt.Errorf("%s, training of its %s: its keys and values are f16, and the row has %s", want.Model, want.Training, want.KV)
	}
	if want.Bits != 0 && (want.Bits != fineBits || want.Training != "" || len(want.Prompt) == 0) {
		return fmt.Errorf("%s: activations of %d bits; rows that continue a prompt may have %d, all others have 8", want.Model, want.Bits, fineBits)
	}
	f, free, err := Open(ctx, want.Model)
	if err != nil {
		return err
	}
	defer free()
	if err := want.checkFile(f); err != nil {
		f.Close()
		return err
	}
	var got Row
	if want.Training != "" {
		got, err = Train(ctx, want.Model, f, want.Training, want.Prompt, c)
	} else {
		got, err = Compute(ctx, want.Model, f, kv, want.Bits == fineBits, want.Prompt, len(want.IDs), c, d)
	}
	switch {
	case err != nil:
		return err
	case !slices.Equal(got.IDs, want.IDs):
		return fmt.Errorf("%s %s: continues with %v, want %v", want.Model, want.settings(), got.IDs, want.IDs)
	case got.Logits != want.Logits && want.Training != "":
		return fmt.Errorf("%s, training of its %s: the numbers have the hash %s, want %s", want.Model, want.Training, got.Logits, want.Logits)
	case got.Logits != want.Logits && len(want.Prompt) == 0:
		return fmt.Errorf("%s %s: the embeddings of a picture have the hash %s, want %s", want.Model, want.settings(), got.Logits, want.Logits)
	case got.Logits != want.Logits:
		return fmt.Errorf("%s %s: the ids are right, the logits have the hash %s, want %s", want.Model, want.settings(), got.Logits, want.Logits)
	}
	return nil
}
