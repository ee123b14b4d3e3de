package guard

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// A stamp tells one state of a file from another.
type stamp struct {
	missing bool
	inode   uint64
	size    int64
	changed time.Time
}

// stampOf returns the stamp of a file, or of what a link leads to.
func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{missing: true}
	}
	return stamp{inode: platform.Inode(info), size: info.Size(), changed: info.ModTime()}
}

// Follow looks at the file of the keys at intervals until ctx ends, and reads it again when it has changed and is the
// same at two looks: until then somebody may be writing it. Where it has become malformed or is gone, the keys stay as
// they are; with strong also where one of them is short enough to be guessed. told is called after each reading.
func (k *Keys) Follow(ctx context.Context, every time.Duration, strong bool, told func(error)) {
	if k.file == "" {
		return
	}
	var check func(*table) error
	if strong {
		check = func(t *table) error {
			if t.weak != nil {
				return fmt.Errorf("%w: others reach the server, and can guess it", t.weak)
			}
			return nil
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	seen := k.read
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := stampOf(k.file)
		if same := now == seen; !same || now == k.read {
			seen = now
			continue
		}
		k.read = now
		told(k.load(check))
	}
}

// File returns the file that Follow follows; empty: there is none.
func (k *Keys) File() string { return k.file }
