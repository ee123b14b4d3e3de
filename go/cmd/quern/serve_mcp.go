package main

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/server"
)

// tools opens the servers of --mcp, of which there may be none.
func (f *serveFlags) tools(ctx context.Context, logs zerolog.Logger) (tools server.Tools, end func(), err error) {
	if f.mcp == "" {
		return nil, func() {}, nil
	}
	servers, err := mcp.ReadConfig(f.mcp)
	if err != nil {
		return nil, nil, err
	}
	box, err := mcp.Open(ctx, servers, readBuild().Version)
	if err != nil {
		return nil, nil, err
	}
	logs.Info().Int("servers", len(servers)).Strs("tools", box.Names()).Msg("tools of MCP servers: who can use the API can call them")
	return box, func() { _ = box.Close() }, nil
}
