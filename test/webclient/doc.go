// Package webclient tests what asks: the module for web pages, under Node and in Chromium, and
// the clients of examples/.
package webclient
