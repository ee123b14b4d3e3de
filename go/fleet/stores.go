package fleet

import (
	"cmp"
	"context"
	"math"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/tools"
)

// Limits of what is kept on disk, where the settings leave them open, and at most.
const (
	defaultStore = 10 << 30
	maxStore     = math.MaxInt64
)

// openDisk opens the disk cache. It is a help and no more: where it cannot be used, the server runs without it.
func (f *Fleet) openDisk() *diskcache.Store {
	if f.c.DiskDir == "" {
		return nil
	}
	s, err := diskcache.Open(diskcache.Config{
		Dir: f.c.DiskDir, Limit: cmp.Or(f.c.DiskBytes, defaultStore), Log: func(line string) { f.log.Warn().Msg(line) },
	})
	if err != nil {
		f.log.Warn().Err(err).Msg("--cache-disk cannot be used: texts seen before are kept in memory only")
		return nil
	}
	return s
}

// openTools opens the tools of the server, if any, and the MCP servers.
func (f *Fleet) openTools(ctx context.Context) error {
	if len(f.c.OwnTools) > 0 {
		own, err := tools.Open(f.c.ToolsDir, f.c.OwnTools)
		if err != nil {
			return usage.Errorf("--tools: %w", err)
		}
		f.log.Info().Str("folder", own.Dir()).Int("tools", len(own.Tools())).
			Msg("tools that work in a folder, in a sandbox: who can use the API can call them")
		f.c.Server.Own = own
	}
	if f.c.MCP == "" {
		return nil
	}
	servers, err := mcp.ReadConfig(f.c.MCP)
	if err != nil {
		return err
	}
	box, err := mcp.OpenAny(ctx, servers, f.c.Version, func(err error) { f.log.Error().Err(err).Msg("tools are missing") })
	if err != nil {
		return err
	}
	f.onClose(func() { _ = box.Close() })
	f.log.Info().Int("servers", len(servers)).Strs("tools", box.Names()).
		Msg("tools of MCP servers: who can use the API can call them")
	f.c.Server.Tools, f.c.Server.MCP = box, box
	return nil
}
