package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// python is an experiment of scripts/lab.
func python(name string) experiment {
	return experiment{name: name, model: true, run: func(ctx context.Context, s setting) (*result, error) {
		args := []string{filepath.Join("scripts/lab", name+".py"), "--quern", s.quern}
		if s.model != "" {
			args = append(args, s.model)
		}
		if s.text != "" {
			args = append(args, "--text", s.text)
		}
		if s.quick {
			args = append(args, "--quick")
		}
		r := new(result)
		return r, said(exec.CommandContext(ctx, s.python, args...), r)
	}}
}

// compiled is an experiment in C, of the folder c, which prints a result.
func compiled(name string) experiment {
	return experiment{name: name, run: func(ctx context.Context, s setting) (*result, error) {
		var args []string
		if s.quick {
			args = append(args, "quick")
		}
		r := new(result)
		return r, runC(ctx, name, r, args...)
	}}
}

// runC compiles a program of this folder for this machine, runs it, and reads the JSON that it prints.
func runC(ctx context.Context, name string, out any, args ...string) error {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, name)
	// Without contraction: an experiment says where it multiplies and adds in one step.
	cc := exec.CommandContext(ctx, "cc", "-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-pthread", "-o", program,
		filepath.Join("bench/lab/c", name+".c"), "-lm")
	if text, err := cc.CombinedOutput(); err != nil {
		return fmt.Errorf("%s.c: %w: %s", name, err, text)
	}
	return said(exec.CommandContext(ctx, program, args...), out)
}

// said runs a program that prints one JSON object, and reads it. What it says beside that is only shown where it fails.
func said(cmd *exec.Cmd, out any) error {
	name := filepath.Base(cmd.Path)
	if len(cmd.Args) > 1 && filepath.Ext(cmd.Args[1]) == ".py" {
		name = filepath.Base(cmd.Args[1])
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return fmt.Errorf("%s: %w: %s", name, err, lines[len(lines)-1])
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: what it printed is no result: %w", name, err)
	}
	return nil
}
