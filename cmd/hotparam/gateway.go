package main

import (
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/serving/edge"
)

type gatewayCmd struct {
	Nginx   gatewayNginxCmd   `cmd:"" help:"Print a file by which nginx makes keys itself."`
	HAProxy gatewayHAProxyCmd `cmd:"" name:"haproxy" help:"Print a file by which HAProxy makes keys itself."`
}

type gatewayRules struct {
	Privacy config.Privacy `embed:"" prefix:"privacy."`
	Config  string         `short:"c" placeholder:"FILE" help:"YAML file with the rules."`
}

type (
	gatewayNginxCmd   struct{ gatewayRules }
	gatewayHAProxyCmd struct{ gatewayRules }
)

func (c *gatewayNginxCmd) Run(k *kong.Kong, p *config.Parser) error {
	set, err := p.RulesToRun()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(k.Stdout, "# Written by hotparam gateway nginx, for version %s of the rules.\n%s",
		edge.Version(set), edge.Nginx(set))
	return err
}

func (c *gatewayHAProxyCmd) Run(k *kong.Kong, p *config.Parser) error {
	set, err := p.RulesToRun()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(k.Stdout, "# Written by hotparam gateway haproxy.\n%s", edge.HAProxy(set))
	return err
}
