package config

var brokerKeys []Key
