// Package config is the configuration surface of the programs: which settings
// each has, where their values come from, and what the error says when one is
// wrong.
//
// A setting comes from its flag, else its environment variable, else the YAML
// file, else its default. Its name is the same everywhere: --redis.addr,
// HOTPARAM_REDIS_ADDR, and addr in the section redis of the file. The rules
// (namespace, rules, ip, classes, overrides, limits) live only in the file and
// belong to package rules; one file serves all programs, so a section that this
// program does not use is checked but otherwise left alone.
//
// The package reads the environment and files; nothing below cmd does.
package config
