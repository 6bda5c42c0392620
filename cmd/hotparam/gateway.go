package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/serving/edge"
)

type gatewayCmd struct {
	Nginx   gatewayNginxCmd   `cmd:"" help:"Print a file with which nginx forms keys itself."`
	HAProxy gatewayHAProxyCmd `cmd:"" name:"haproxy" help:"Print a file with which HAProxy forms keys itself."`
}

type gatewayRules struct {
	outputFlags
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
	return c.printFile(k.Stdout, fmt.Sprintf("# Written by hotparam gateway nginx, for version %s of the rules.\n%s",
		edge.Version(set), edge.Nginx(set)))
}

// printFile prints a file of a gateway, either as text or as a field of one value.
func (c *gatewayRules) printFile(out io.Writer, text string) error {
	return c.Print(out, map[string]string{"file": text}, func(out io.Writer) error {
		_, err := io.WriteString(out, text)
		return err
	})
}

func (c *gatewayHAProxyCmd) Run(k *kong.Kong, p *config.Parser) error {
	set, err := p.RulesToRun()
	if err != nil {
		return err
	}
	return c.printFile(k.Stdout, fmt.Sprintf("# Written by hotparam gateway haproxy.\n%s", edge.HAProxy(set)))
}
