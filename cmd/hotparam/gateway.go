package main

import (
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/serving/edge"
)

type gatewayCmd struct {
	Nginx gatewayNginxCmd `cmd:"" help:"Print a file by which nginx makes keys itself."`
}

type gatewayNginxCmd struct {
	Privacy config.Privacy `embed:"" prefix:"privacy."`
	Config  string         `short:"c" placeholder:"FILE" help:"YAML file with the rules."`
}

func (c *gatewayNginxCmd) Run(k *kong.Kong, p *config.Parser) error {
	set, err := p.RulesToRun()
	if err != nil {
		return err
	}
	text, version := edge.Nginx(set)
	_, err = fmt.Fprintf(k.Stdout, "# Written by hotparam gateway nginx, for version %s of the rules.\n%s", version, text)
	return err
}
