package main

import (
	"cmp"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/diskcache"
)

// defaultDisk is the limit of the disk cache where the flags name none.
const defaultDisk = 10 << 30

// openDisk opens the disk cache that the flags name. It is a help and no more: where it
// cannot be used, the server runs without it.
func (f *serveFlags) openDisk(logs zerolog.Logger) *diskcache.Store {
	if f.diskDir == "" {
		return nil
	}
	s, err := diskcache.Open(diskcache.Config{
		Dir: f.diskDir, Limit: cmp.Or(f.diskMax, defaultDisk), Log: func(line string) { logs.Warn().Msg(line) },
	})
	if err != nil {
		logs.Warn().Err(err).Msg("--cache-disk cannot be used: texts seen before are kept in memory only")
		return nil
	}
	return s
}
